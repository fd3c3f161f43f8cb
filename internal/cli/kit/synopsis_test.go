package kit

import (
	"errors"
	"testing"

	"berth/api"
)

// Given commands with and without flags, whatever their Use says, then the line on how to call them says that there are
// flags where there are.
func TestSynopsisKnowsTheFlags(t *testing.T) {
	for want, use := range map[string]string{
		"finish [flags]":        "finish",
		"show [flags] <volume>": "show [flags] <volume>",
	} {
		cmd := &Command{Use: use}
		cmd.Flags().Bool("yes", false, "do not ask")
		if got := cmd.Synopsis(); got != want {
			t.Errorf("%q: %q, want %q", use, got, want)
		}
	}
	if got := (&Command{Use: "delete [flags] <id>"}).Synopsis(); got != "delete <id>" {
		t.Errorf("without flags: %q", got)
	}
}

// Given an answer that says already what was tried, with or without a name, then it is said once; another one gets it.
func TestDoingSaysOnceWhatWasTried(t *testing.T) {
	for body, want := range map[string]string{
		"finish the recovery: none is under way": "finish the recovery: none is under way",
		"none is under way":                      "finish the recovery: none is under way",
		"finish the recovery2: no":               "finish the recovery: finish the recovery2: no",
	} {
		err := Doing(&api.StatusError{Code: 404, Body: body}, "finish", "the recovery", "")
		var status *api.StatusError
		if err.Error() != want || !errors.As(err, &status) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
}
