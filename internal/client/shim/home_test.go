package shim

import (
	"os/user"
	"slices"
	"strings"
	"testing"

	"berth/internal/testkit/reference"
)

// TestThePageNamesWhatAUserBrings: given a task whose user the passwd file has, then the page of the environment names
// each variable that it has from there, and no other; one that the job sets stays as it is.
func TestThePageNamesWhatAUserBrings(t *testing.T) {
	entry := &user.User{Username: "postgres", HomeDir: "/var/lib/postgresql"}
	var there []string
	for _, v := range withHome(nil, entry) {
		name, _, _ := strings.Cut(v, "=")
		there = append(there, name)
	}
	p := reference.Open(t, "reference/env.md")
	lists := p.Section("Of the task's user").Lists()
	if len(lists) != 1 {
		t.Fatalf("the lists are %q", lists)
	}
	p.Same("a variable", lists[0], there)
	if env := withHome([]string{"HOME=/data"}, entry); !slices.Contains(env, "HOME=/data") || len(env) != len(there) {
		t.Errorf("with a HOME of the job's own it is %q", env)
	}
}
