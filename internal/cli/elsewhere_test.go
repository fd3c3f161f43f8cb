package cli

import (
	"errors"
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
