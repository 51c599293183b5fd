// Command chipreport reduces what p4c's Tofino back end says of a placed program,
// resources.json and phv.json, to a text that is short enough to read and commit.
// `make p4-chips` calls it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chipreport FOLDER, the compiler's pipe/logs")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chipreport:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	var files [2][]byte
	for i, name := range []string{"resources.json", "phv.json"} {
		var err error
		if files[i], err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	text, err := report(files[0], files[1])
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(text)
	return err
}
