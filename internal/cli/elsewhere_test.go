package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/internal/cli/kit"
)

// Given the commands of other orchestrators that there are not here, when people type them with anything behind, then
// the answer is the way out and never the name of a command that happens to look alike.
func TestCommandsOfOthersAnswerWithTheWayOut(t *testing.T) {
	for name, way := range elsewhere {
		_, root, _ := tree()
		_, err := read(root, append(strings.Fields(name), "list"))
		var exit *kit.Exit
		if !errors.As(err, &exit) || exit.Code != kit.ExitUnknown {
			t.Errorf("berth %s: %v; is it a command now? then its entry goes", name, err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, way) || strings.Contains(text, "did you mean") {
			t.Errorf("berth %s: %s", name, text)
		}
	}
}

// Given a short word that is no command, when it is typed, then nothing unlike it is suggested.
func TestNothingUnlikeAWordIsSuggested(t *testing.T) {
	for _, word := range []string{"xi", "ps", "tlz", "zzz"} {
		_, root, _ := tree()
		if _, err := read(root, []string{word}); err == nil || strings.Contains(err.Error(), "did you mean") {
			t.Errorf("berth %s: %v", word, err)
		}
	}
}

// TestWhatEndsThingsIsSuggestedForItsOwnMisspellingsAlone: a command that ends, undoes or makes anew is no guess for
// another word; every command that asks before it acts is one of those.
func TestWhatEndsThingsIsSuggestedForItsOwnMisspellingsAlone(t *testing.T) {
	_, root, _ := tree()
	everyCommand(root, func(c *kit.Command) {
		if c.Flags().Lookup("yes") != nil && !slices.Contains(endings, c.Name()) {
			t.Errorf("%s asks before it acts, and is suggested like any other", c.Path())
		}
	})
	for typed, want := range map[string]string{
		"node identity ne":     "node identity new",
		"node identity knew":   "",
		"node identity renews": "",
		"topp":                 "",
		"stob":                 "stop",
		"sto":                  "stop",
		"volume attached":      "",
		"volume reattach":      "",
		"volume detatch":       "volume detach",
		"volume undelete":      "",
		"volume register1":     "volume register",
		"volume reregister":    "",
		"operator raft remove": "operator raft remove-peer",
		"job strart":           "job start",
		"alloc sto":            "alloc stop",
		"system gb":            "",
		"plugin find":          "",
		"jop":                  "job",
	} {
		_, err := read(root, strings.Fields(typed))
		if err == nil {
			t.Errorf("berth %s is a command", typed)
			continue
		}
		_, text, _ := strings.Cut(err.Error(), `did you mean "berth `)
		if got, _, _ := strings.Cut(text, `"`); got != want {
			t.Errorf("berth %s: %q is suggested, not %q", typed, got, want)
		}
	}
}

// TestEveryCommandOfOthersIsOneOfOursOrHasAWayOut: testdata/others.list lists what people have in their fingers.
func TestEveryCommandOfOthersIsOneOfOursOrHasAWayOut(t *testing.T) {
	list, err := os.ReadFile("testdata/others.list")
	if err != nil {
		t.Fatal(err)
	}
	_, root, _ := tree()
	root.Add(&kit.Command{Use: "agent", Run: func(context.Context, []string) error { return nil }})
	count := 0
	for line := range strings.Lines(string(list)) {
		noun, verbs, _ := strings.Cut(strings.TrimSpace(line), ":")
		if noun == "" || strings.HasPrefix(noun, "#") {
			continue
		}
		all := strings.Fields(verbs)
		if len(all) == 0 {
			all = []string{""}
		}
		for _, verb := range all {
			count++
			words := strings.Fields(noun + " " + verb)
			at := root
			for i, word := range words {
				next, err := step(at, word)
				if next == nil {
					if wayOut(strings.Join(words[:i+1], " ")) == "" {
						t.Errorf("berth %s: %v", strings.Join(words, " "), err)
					}
					break
				}
				at = next
			}
		}
	}
	if count < 180 {
		t.Errorf("the list has %d commands", count)
	}
}

// step is the command that a word names beneath another; nil: none.
func step(at *kit.Command, word string) (*kit.Command, error) {
	next, err := verb(at, word)
	if err != nil {
		return nil, err
	}
	return next, nil
}
