package nodeservers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

type source struct{ used []string }

func (s *source) Addresses() []string { return s.used }

func (s *source) Use(addresses []string) { s.used = addresses }

// TestServersOfANodeAreAddresses: names and numbers with a port are taken, and nothing that no server can have.
func TestServersOfANodeAreAddresses(t *testing.T) {
	s := &source{}
	good := []string{"10.0.0.7:4647", "[fe80::1]:4647", "berth-1.example_x:1"}
	if err := Use(s, good); err != nil || !slices.Equal(s.used, good) {
		t.Fatalf("%v, %v", err, s.used)
	}
	many := make([]string, most+1)
	for i := range many {
		many[i] = fmt.Sprintf("10.0.0.7:%d", i+1)
	}
	for _, bad := range [][]string{nil, {""}, {"10.0.0.7"}, {"10.0.0.7:0"}, {"10.0.0.7:65536"}, {"h:x"}, {":4647"},
		{"0.0.0.0:4647"}, {"[::]:4647"}, {"224.0.0.1:4647"}, {"http://h:4647"}, {"a b:1"}, {"a:1", "a:1"},
		{strings.Repeat("a", 254) + ":1"}, many} {
		if err := Use(s, bad); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%.40v: %v", bad, err)
		}
	}
	if !slices.Equal(s.used, good) {
		t.Errorf("a refusal changed them: %v", s.used)
	}
	if err := Use(nil, good); !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "has a server") {
		t.Errorf("an agent with a server: %v", err)
	}
}
