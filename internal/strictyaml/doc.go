// Package strictyaml fills Go values from hand-written YAML files. Its errors name file, line, column, key, problem
// and remedy, several at once.
//
// An unknown key is an error, which suggests the most similar key. The struct tag yaml names a field's key. A field
// with the tag required must be given; the tag's text is the remedy in the error:
//
//	Name string `yaml:"name" required:"the name goes into every result"`
//
// The tag was names a former key of the field. A file with the former key gets an error with the new one.
//
// An absent or null key leaves its field unchanged, so the values before decoding are the defaults. A type with
// several spellings implements [Unmarshaler]; quantities implement [encoding.TextUnmarshaler].
//
// Everything that a file can contain is bounded: bytes, values (aliases followed), depth, and the number of
// collected errors. Every error about content matches [ErrContent]. No content of a file causes a panic. A Go type
// that cannot be decoded does, because that is the program's fault.
package strictyaml
