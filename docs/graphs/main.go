// SPDX-License-Identifier: Apache-2.0

// Command graphs draws what `berth bench sweep -o json` and `berth bench --ramp
// -o json` have measured, an SVG for each file.
//
// It is a module of its own, so that Berth depends on nothing that draws. Of what
// the bench writes it knows only the keys that docs/BENCH.md promises.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", ".", "folder for the graphs, each with the name of its data")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: graphs [--out FOLDER] FILE.json …")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := drawAll(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// drawAll draws every file that can be drawn, and says what is wrong with others.
func drawAll(folder string, files []string) error {
	var errs []error
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json") + ".svg"
		if err := drawFile(filepath.Join(folder, name), file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	return errors.Join(errs...)
}

func drawFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := figureOf(data)
	if err != nil {
		return err
	}
	svg, err := f.svg()
	if err != nil {
		return err
	}
	return os.WriteFile(to, svg, 0o644)
}
