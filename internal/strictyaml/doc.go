// Package strictyaml fills Go values from YAML files that people write, and says
// what is wrong with such a file: file, line, column, key, problem and remedy,
// several at once.
//
// An unknown key is refused, with the key that it was probably meant to be. Keys
// are those of the struct tag yaml. A field with the tag required must be given;
// the tag's text is the remedy when it is not:
//
//	Name string `yaml:"name" required:"the name goes into every result"`
//
// A field with the tag was names the key that it replaces, which is refused by that
// name.
//
// A key that is absent, or null, leaves its field as it is, so defaults are what the
// value held before. A type that may be written in more than one way implements
// [Unmarshaler]; quantities implement [encoding.TextUnmarshaler].
//
// Everything that a file says is bounded: bytes, values (aliases followed), depth,
// and the errors that are collected. Every error about content matches [ErrContent].
// Nothing here panics on what a file holds; a Go type that cannot be read does, since
// that is the program's fault.
package strictyaml
