package sweep

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// pathStep is one step of a key path: into a mapping, or into a list.
type pathStep struct {
	key   string // in a mapping; "" in a list
	index int    // in a list; every means all
}

const everyIndex = -1

// parsePath reads "failures[1].events[*].detection".
func parsePath(text string) ([]pathStep, error) {
	var out []pathStep
	bad := func() ([]pathStep, error) {
		return nil, fmt.Errorf("%q is not a key", text)
	}
	for part := range strings.SplitSeq(text, ".") {
		key, rest, _ := strings.Cut(part, "[")
		if key == "" {
			return bad()
		}
		out = append(out, pathStep{key: key})
		for rest != "" {
			inside, after, ok := strings.Cut(rest, "]")
			if !ok {
				return bad()
			}
			s := pathStep{index: everyIndex}
			if inside != "*" {
				i, err := strconv.Atoi(inside)
				if err != nil || i < 0 {
					return bad()
				}
				s.index = i
			}
			out = append(out, s)
			if after == "" {
				break
			}
			if rest, ok = strings.CutPrefix(after, "["); !ok {
				return bad()
			}
		}
	}
	return out, nil
}

// assignAt sets the node at path, below root, to value. It creates missing mappings.
func assignAt(root *yaml.Node, path []pathStep, value *yaml.Node) error {
	if len(path) == 0 {
		*root = *clone(value)
		return nil
	}
	s := path[0]
	if s.key != "" {
		if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
			*root = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		}
		if root.Kind != yaml.MappingNode {
			return fmt.Errorf("there is no mapping for key %s", s.key)
		}
		for i := 0; i+1 < len(root.Content); i += 2 {
			if root.Content[i].Value == s.key {
				return assignAt(root.Content[i+1], path[1:], value)
			}
		}
		next := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s.key}, next)
		return assignAt(next, path[1:], value)
	}
	if root.Kind != yaml.SequenceNode {
		return fmt.Errorf("there is no list for [%s]", indexText(s.index))
	}
	if s.index >= len(root.Content) || len(root.Content) == 0 {
		return fmt.Errorf("the list has %d entries: there is no [%s]", len(root.Content), indexText(s.index))
	}
	for i, n := range root.Content {
		if s.index == everyIndex || s.index == i {
			if err := assignAt(n, path[1:], value); err != nil {
				return err
			}
		}
	}
	return nil
}

func indexText(i int) string {
	if i == everyIndex {
		return "*"
	}
	return strconv.Itoa(i)
}

// clone copies a node and all nodes below it, so that a value set twice is two nodes.
func clone(n *yaml.Node) *yaml.Node {
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		out.Content[i] = clone(c)
	}
	return &out
}
