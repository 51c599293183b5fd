package stf

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
)

// Script is a parsed STF (simple test framework) file: packets to send and packets to expect.
type Script struct {
	name string
	cmds []command
}

// command is one statement: its words, with packet data joined.
type command struct {
	line  int
	verb  string
	words []string
}

// arity: the least number of words after a statement's verb.
var arity = map[string]int{
	"add": 2, "setdefault": 2, "packet": 2, "expect": 1, "no_packet": 0, "wait": 0, "remove": 1,
	"check_counter": 1, "mirroring_add": 2, "mirroring_add_mc": 2, "mirroring_delete": 1, "mirroring_get": 1,
	"mc_mgrp_create": 1, "mc_node_create": 2, "mc_node_update": 2, "mc_node_associate": 2,
	"counter_read": 2, "counter_write": 4, "register_read": 2, "register_write": 3, "register_reset": 1,
	"meter_get_rates": 2, "meter_set_rates": 3, "meter_array_set_rates": 2,
}

// Parse reads an STF script. name is used in error messages.
func Parse(name string, src []byte) (*Script, error) {
	s := &Script{name: name}
	in := bufio.NewScanner(bytes.NewReader(src))
	in.Buffer(nil, 1<<20)
	for line := 1; in.Scan(); line++ {
		text, _, _ := strings.Cut(in.Text(), "#")
		w := strings.Fields(text)
		if len(w) == 0 {
			continue
		}
		verb := strings.ToLower(w[0])
		least, ok := arity[verb]
		if !ok {
			return nil, fmt.Errorf("stf: %s:%d: unknown statement %q", name, line, w[0])
		}
		if len(w)-1 < least {
			return nil, fmt.Errorf("stf: %s:%d: %s needs %d more words", name, line, verb, least-len(w)+1)
		}
		c := command{line: line, verb: verb, words: w[1:]}
		if verb == "packet" || verb == "expect" {
			c.words = []string{w[1], strings.ToLower(strings.Join(w[2:], ""))}
			if err := checkData(c.words[1], verb == "expect"); err != nil {
				return nil, fmt.Errorf("stf: %s:%d: %w", name, line, err)
			}
		}
		s.cmds = append(s.cmds, c)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("stf: %s: %w", name, err)
	}
	return s, nil
}

// checkData checks packet data: hex digits, in an expectation also * and a
// last $.
func checkData(d string, expect bool) error {
	if expect {
		d = strings.TrimSuffix(d, "$")
	} else if len(d)%2 != 0 {
		return fmt.Errorf("packet data has %d hex digits, an odd number", len(d))
	}
	for i, r := range d {
		if !strings.ContainsRune("0123456789abcdef", r) && (!expect || r != '*') {
			return fmt.Errorf("digit %d of the packet data is %q", i, r)
		}
	}
	return nil
}
