package credentials

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
)

// opened are credentials of a server on a directory.
func opened(t *testing.T, dir string) *Credentials {
	t.Helper()
	c := New(Config{Role: trust.Server, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAServerWithoutItsLogDoesNotStart: once it has had one it has voted, and must not do so again without it.
func TestAServerWithoutItsLogDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // it has had none yet
		if err := opened(t, dir).Begin(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := opened(t, dir).Begin(true); err != nil {
		t.Fatal(err)
	}
	if err := opened(t, dir).Begin(true); err != nil {
		t.Errorf("with its log: %v", err)
	}
	err := opened(t, dir).Begin(false)
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "force-leave") {
		t.Errorf("without it: %v", err)
	}
}

// TestTheNewestListOfServersStays: over restarts, and whatever comes late.
func TestTheNewestListOfServersStays(t *testing.T) {
	dir := t.TempDir()
	one := []trust.ServerAt{{Name: "s1", Address: "10.0.0.1:4647", Key: "k1"}}
	two := append(slices.Clone(one), trust.ServerAt{Name: "s2", Address: "10.0.0.2:4647", Key: "k2"})
	c := opened(t, dir)
	for _, learned := range []struct {
		list []trust.ServerAt
		asOf uint64
		want []trust.ServerAt
	}{{one, 5, one}, {two, 9, two}, {one, 8, two}, {one, 0, one}, {two, 9, two}} {
		if err := c.Learn(learned.list, learned.asOf); err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]*Credentials{"it": c, "its next start": opened(t, dir)} {
			if got := c.Servers(); !slices.Equal(got, learned.want) {
				t.Errorf("as of %d %s knows %v, want %v", learned.asOf, what, got, learned.want)
			}
		}
	}
}

// TestEveryServerHasItsTurn: those that are configured, and those that the cluster has told; never the one that asks.
func TestEveryServerHasItsTurn(t *testing.T) {
	c := New(Config{Role: trust.Server, Dir: t.TempDir(), Servers: []string{"10.0.0.1:4647"}})
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	c.self.ID = "s2"
	err := c.Learn([]trust.ServerAt{
		{Name: "s1", Address: "10.0.0.1:4647"}, {Name: "s2", Address: "10.0.0.2:4647"},
		{Name: "s3", Address: "10.0.0.3:4647"}, {Name: "s4"},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var turns []string
	for range 3 {
		turns = append(turns, c.turn())
		c.fail(c.turn())
		c.fail("10.0.0.9:4647") // not the one whose turn it is
	}
	if want := []string{"10.0.0.1:4647", "10.0.0.3:4647", "10.0.0.1:4647"}; !slices.Equal(turns, want) {
		t.Errorf("the turns are %v", turns)
	}
}
