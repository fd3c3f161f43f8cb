// Package keepers owns the stories of the servers' storage keepers: the keepers of claims and volumes, the endpoints
// and the dispatcher of production, over a state in memory, with nodes whose controllers answer as a transcript says.
// Time is a bubble's, so a story of hours takes milliseconds. Only tests import it.
package keepers

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// Play runs the stories in testdata: commands, a line of dashes, and what came of them: the calls that nodes were asked
// for, the answers to users, and every record that changed.
func Play(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playFile(t, f) })
		})
	}
}

func playFile(t *testing.T, path string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimRight(string(raw), "\n"), "\n\n") {
		if i > 0 {
			out.WriteString("\n\n")
		}
		input, want, _ := strings.Cut(block, "\n----")
		out.WriteString(input)
		got := w.play(input)
		if want = strings.Trim(want, "\n"); !*update && got != want { // also where nothing came of it
			t.Errorf("%s: after\n%s\n\ngot:\n%s\n\nwant:\n%s", path, input, got, want)
		}
		if got != "" {
			out.WriteString("\n----\n" + got)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// play runs commands and tells what happened, by volume: the calls in their order, the answers to users, for who hears
// of an end first is no promise, then the records that changed.
func (w *world) play(input string) string {
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := w.command(words[0], words[1:]); err != nil {
			w.t.Fatalf("%s: %v", strings.TrimSpace(line), err)
		}
		synctest.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.events, func(a, b event) int {
		return cmp.Or(strings.Compare(a.volume, b.volume), strings.Compare(a.answer, b.answer))
	})
	var out []string
	for _, e := range w.events {
		out = append(out, e.text+e.answer)
	}
	w.events = nil
	return readable(strings.Join(append(out, w.changes()...), "\n"))
}

var (
	uuids  = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	tails  = regexp.MustCompile(`-[0-9a-f]{8}"`)
	stamps = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
)

// readable takes random ids and times out of a text.
func readable(s string) string {
	s = uuids.ReplaceAllString(s, "<id>")
	s = tails.ReplaceAllString(s, `-<id>"`)
	return stamps.ReplaceAllString(s, "<time>")
}

// option returns the value of name=value among words.
func option(words []string, name, missing string) string {
	for _, word := range words {
		if k, v, ok := strings.Cut(word, "="); ok && k == name {
			return v
		}
	}
	return missing
}

func need(words []string, n int) error {
	if len(words) < n {
		return fmt.Errorf("it needs %d words", n)
	}
	return nil
}
