package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/internal/testkit/freeport"
)

// mistake is what a person gets wrong, and what the answer must have: the thing, the place, the way out.
type mistake struct {
	name, file string
	command    []string
	exit       int
	want       []string
}

// TestMistakesAreAnsweredWithTheThingThePlaceAndTheWayOut plays testdata/mistakes.txt with the real program: a person
// types each command, with FILE as it stands there, and the answer has each line that is wanted.
func TestMistakesAreAnsweredWithTheThingThePlaceAndTheWayOut(t *testing.T) {
	m := newMachine(t, false)
	port := freeport.Pick(t)
	holder := shell{id: "holder", count: 1, script: lasting,
		group: fmt.Sprintf("network {\n port \"db\" {\n static = %d\n }\n}", port)}
	m.run(holder.hcl())
	m.running("holder", 1)
	for _, c := range mistakes(t) {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "j.hcl")
			text := strings.ReplaceAll(c.file, "PORT_HELD", strconv.Itoa(port))
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for i, word := range c.command {
				if word == "FILE" {
					c.command[i] = file
				}
			}
			out, exit := m.cli(c.command...)
			if exit != c.exit {
				t.Errorf("exit code %d, want %d", exit, c.exit)
			}
			for _, want := range c.want {
				if want = strings.ReplaceAll(want, "PORT_HELD", strconv.Itoa(port)); !strings.Contains(out, want) {
					t.Errorf("the answer lacks %q", want)
				}
			}
			if t.Failed() {
				t.Logf("berth %s:\n%s", strings.Join(c.command, " "), out)
			}
		})
	}
	m.stopJob("holder")
}

// mistakes reads the table: "== name", "$ command", "exit code", the file's lines behind ":", and what is wanted.
func mistakes(t *testing.T) (out []*mistake) {
	f, err := os.Open("testdata/mistakes.txt")
	must(t, err)
	defer func() { must(t, f.Close()) }()
	var c *mistake
	for s := bufio.NewScanner(f); s.Scan(); {
		mark, rest, _ := strings.Cut(s.Text(), " ")
		switch mark {
		case "", "#":
		case "==":
			c = &mistake{name: rest}
			out = append(out, c)
		case "$":
			c.command = strings.Fields(rest)[1:]
		case "exit":
			c.exit, err = strconv.Atoi(rest)
			must(t, err)
		case ":":
			c.file += rest + "\n"
		case ">":
			c.want = append(c.want, rest)
		default:
			t.Fatalf("testdata/mistakes.txt: %q", s.Text())
		}
	}
	if len(out) < 15 {
		t.Fatalf("only %d mistakes", len(out))
	}
	return out
}
