package volume

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"berth/internal/base/ids"
)

var update = flag.Bool("update", false, "rewrite the tables in testdata")

// golden holds a table against the one in testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := "testdata/" + file
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s has changed; see the difference with -update:\n%s", path, got)
	}
}

var everyMode = []AccessMode{
	SingleNodeWriter,
	SingleNodeReader,
	MultiNodeReader,
	MultiNodeSingleWriter,
	MultiNodeMultiWriter,
	"of-tomorrow",
}

// aUse is the claim of an alloc.
func aUse(alloc ids.Alloc, node ids.Node, mode AccessMode, reads bool, state ClaimState) *Claim {
	return &Claim{
		Alloc:      alloc,
		Node:       node,
		AccessMode: mode,
		ReadOnly:   reads,
		State:      state,
	}
}

func verb(reads bool) string {
	if reads {
		return "reads"
	}
	return "writes"
}

// TestTheTableOfExclusion writes out who excludes whom, and as what a newcomer begins beside one that is there.
func TestTheTableOfExclusion(t *testing.T) {
	var out strings.Builder
	out.WriteString(
		"# Who may use a volume beside whom: one claim is there, another asks. Written by the test; rewrite with " +
			"-update.\n")
	out.WriteString("# held: at once. queued: when the other's end is known. no: not before its alloc ends.\n")
	for _, mode := range everyMode {
		fmt.Fprintf(&out, "\n%s\n", mode)
		fmt.Fprintf(&out, "%-17s  %-17s  %-8s  %s\n", "there", "asks", "excludes", "begins as")
		for _, state := range []ClaimState{Held, Releasing, Queued} {
			for _, reads := range []bool{false, true} {
				for _, asks := range []bool{false, true} {
					if mode.ReaderOnly() && (!reads || !asks) {
						continue // nobody may ask for that
					}
					for _, node := range []ids.Node{"here", "there"} {
						row(t, &out, aUse("a", "here", mode, reads, state), aUse("b", node, mode, asks, ""))
					}
				}
			}
		}
	}
	out.WriteString("\ntwo modes\n")
	for _, a := range everyMode {
		for _, b := range everyMode {
			x, y := aUse("a", "here", a, true, Held), aUse("b", "here", b, true, "")
			if a != b && !Excludes(x, y) {
				fmt.Fprintf(&out, "%s beside %s\n", a, b)
			}
		}
	}
	out.WriteString("no claim is beside one of another mode\n")
	golden(t, "exclusion.txt", out.String())
}

func row(t *testing.T, out *strings.Builder, there, asks *Claim) {
	t.Helper()
	excludes := Excludes(there, asks)
	if excludes != Excludes(asks, there) {
		t.Errorf("%+v and %+v: one excludes the other, but not the other way", there, asks)
	}
	running := func(ids.Alloc) bool { return there.State == Releasing }
	as, by := Admit(asks, []*Claim{there}, running)
	if (by != nil) != excludes {
		t.Errorf("%+v beside %+v: in its way is %+v", asks, there, by)
	}
	begins := string(as)
	if as == "" {
		begins = "no"
	}
	node := "same node"
	if there.Node != asks.Node {
		node = "another"
	}
	is := map[bool]string{true: "yes", false: "-"}[excludes]
	fmt.Fprintf(out, "%-17s  %-17s  %-8s  %s\n", string(there.State)+", "+verb(there.ReadOnly),
		verb(asks.ReadOnly)+", "+node, is, begins)
}

func TestOneClaimIsQueuedAndNobodyOvertakesIt(t *testing.T) {
	always := func(ids.Alloc) bool { return true }
	reader := func(alloc ids.Alloc, node ids.Node, state ClaimState) *Claim {
		return aUse(alloc, node, SingleNodeReader, true, state)
	}
	// A reader leaves node one, and the next one waits for that on node two.
	there := []*Claim{reader("a", "one", Releasing), reader("b", "two", Queued)}
	for _, node := range []ids.Node{"one", "two", "three"} {
		if as, by := Admit(reader("c", node, ""), there, always); as != "" || by.Alloc != "b" {
			t.Errorf("a third reader on node %s begins as %q, in its way is %+v; want b, which waits already", node, as,
				by)
		}
	}
	if as, by := Admit(reader("b", "two", Queued), there, always); as != Queued {
		t.Errorf("the one that waits is not in its own way, but got %q, %+v", as, by)
	}
	if as, by := Admit(reader("b", "two", Queued), there[1:], always); as != Held {
		t.Errorf("the one that waits has a free volume, but got %q, %+v", as, by)
	}
	writer := aUse("w", "one", MultiNodeSingleWriter, false, Releasing)
	next := aUse("n", "two", MultiNodeSingleWriter, false, Queued)
	if as, _ := Admit(aUse("r", "two", MultiNodeSingleWriter, true, ""), []*Claim{writer, next}, always); as != Held {
		t.Errorf("a reader beside writers that replace each other begins as %q", as)
	}
}
