package e2e

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
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
	runs       bool // the job is there afterwards
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
	speaks := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(speaks.Close)
	hangsUp := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(hangsUp.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	places := strings.NewReplacer("PORT_HELD", strconv.Itoa(port), "HTTP_ADDR", speaks.Listener.Addr().String(),
		"HANGS_UP", hangsUp.Listener.Addr().String(), "TLS_ADDR", secure.Listener.Addr().String(),
		"NOBODY", "127.0.0.1:"+strconv.Itoa(freeport.Pick(t)))
	all := mistakes(t, "testdata/mistakes.txt")
	if len(all) < 30 {
		t.Fatalf("only %d mistakes", len(all))
	}
	for job := range m.errs(all, places) {
		m.stopJob(job)
	}
	m.stopJob("holder")
}

// TestMistakesWithVolumesAreAnswered plays testdata/mistakes-volumes.txt, where the bundled plugin has a volume "v".
func TestMistakesWithVolumesAreAnswered(t *testing.T) {
	m := newMachine(t, true)
	m.create("v", "local-csi")
	for job := range m.errs(mistakes(t, "testdata/mistakes-volumes.txt"), strings.NewReplacer()) {
		m.stopJob(job)
	}
	m.remove("v")
}

// errs makes the mistakes, with what stands for places replaced, and returns the jobs that are there afterwards.
func (m *machine) errs(all []*mistake, places *strings.Replacer) map[string]bool {
	jobs := map[string]bool{}
	for _, c := range all {
		m.t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "j.hcl")
			must(t, os.WriteFile(file, []byte(places.Replace(c.file)), 0o600))
			for i, word := range c.command {
				if c.command[i] = places.Replace(word); word == "FILE" {
					c.command[i] = file
				}
			}
			if job := id.FindStringSubmatch(c.file); job != nil && c.runs {
				jobs[job[1]] = true
			}
			out, exit := m.cli(c.command...)
			if exit != c.exit {
				t.Errorf("exit code %d, want %d", exit, c.exit)
			}
			for _, want := range c.want {
				if want = places.Replace(want); !strings.Contains(out, want) {
					t.Errorf("the answer lacks %q", want)
				}
			}
			if t.Failed() {
				t.Logf("berth %s:\n%s", strings.Join(c.command, " "), out)
			}
		})
	}
	return jobs
}

// id finds the job of a file.
var id = regexp.MustCompile(`^job "([^"]+)"`)

// mistakes reads a table: "== name", "$ command", "exit code", the file's lines behind ":", and what is wanted.
func mistakes(t *testing.T, table string) (out []*mistake) {
	f, err := os.Open(table)
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
			c.runs = strings.HasPrefix(rest, "berth job run ") && !strings.Contains(c.name, "refused")
		case "exit":
			c.exit, err = strconv.Atoi(rest)
			must(t, err)
		case ":":
			c.file += rest + "\n"
		case ">":
			c.want = append(c.want, rest)
		default:
			t.Fatalf("%s: %q", table, s.Text())
		}
	}
	return out
}
