// Package docstest tests the pages of folder docs: their commands, figures and links, and what they say of the tree.
package docstest
