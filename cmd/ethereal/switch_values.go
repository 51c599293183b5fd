package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

func setDatapath(o *switchOptions, v string) error {
	o.datapath = v
	return live.CheckDatapath(v, autoDatapath)
}

func setRestrictions(o *switchOptions, v string) error {
	if o.restrictions = v; v != "on" && v != "off" && v != autoDatapath {
		return fmt.Errorf("it is on, off or auto")
	}
	return nil
}

func setInterface(o *switchOptions, v string) error {
	number, name, ok := strings.Cut(v, "@")
	var i switchInterface
	if !ok || name == "" {
		return fmt.Errorf("%q is not PORT@IFACE", v)
	}
	if err := parsePort(number, 0, &i.port); err != nil {
		return err
	}
	i.name = name
	o.interfaces = append(o.interfaces, i)
	return nil
}

func setLogLevel(o *switchOptions, v string) error {
	levels := []string{"trace", "debug", "info", "warn", "error", "off"}
	if !slices.Contains(levels, v) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(levels, ", "))
	}
	o.logLevel = v
	return nil
}

func parseUint(v string, bits int, out *uint64) error {
	n, err := strconv.ParseUint(v, 0, bits)
	if err != nil {
		return fmt.Errorf("%q is not a number", v)
	}
	*out = n
	return nil
}

func parsePort(v string, least uint32, out *uint32) error {
	var n uint64
	if err := parseUint(v, 32, &n); err != nil {
		return err
	}
	if uint32(n) < least {
		return fmt.Errorf("%d is not a port number here", n)
	}
	*out = uint32(n)
	return nil
}

func parseInt(v string, least int, out *int) error {
	n, err := strconv.Atoi(v)
	if err != nil {
		return fmt.Errorf("%q is not a number", v)
	}
	if n < least {
		return fmt.Errorf("%d is less than %d", n, least)
	}
	*out = n
	return nil
}

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
