package main

import (
	"fmt"
	"strings"
)

// setPortName records the gNMI name of a port, from flag --port-name.
func setPortName(names *map[uint32]string, v string) error {
	number, name, ok := strings.Cut(v, "@")
	if !ok || name == "" {
		return fmt.Errorf("%q is not PORT@NAME", v)
	}
	var port uint32
	if err := parsePort(number, 0, &port); err != nil {
		return err
	}
	if *names == nil {
		*names = map[uint32]string{}
	}
	(*names)[port] = name
	return nil
}

// namesOfPorts refuses names of ports that there are not.
func namesOfPorts(names map[uint32]string, there func(port uint32) bool) error {
	for port, name := range names {
		if !there(port) {
			return fmt.Errorf("--port-name %d@%s: no -i gives port %d an interface", port, name, port)
		}
	}
	return nil
}

// gnmiName returns what gNMI calls the port that is an interface.
func gnmiName(port uint32, device string, ethernet bool, names map[uint32]string) string {
	if name := names[port]; name != "" {
		return name
	}
	if ethernet {
		return fmt.Sprintf("Ethernet%d", port)
	}
	return device
}
