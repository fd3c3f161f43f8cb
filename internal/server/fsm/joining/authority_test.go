package joining_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
	"berth/internal/testkit/certificates"
	"berth/internal/testkit/localstate"
)

// rotated is a cluster whose root was replaced, with nodes that joined before; it returns the key of the present root.
func rotated(t *testing.T, c *localstate.Cluster, nodes ...ids.Node) (cmd *joining.AuthorityRotate, key trust.KeyID) {
	t.Helper()
	id := c.Store.Snapshot().Meta(nil).ClusterID
	old, next := certificates.New(t, id).Authority, certificates.New(t, id).Authority
	cross, err := old.CrossSign(next.Root, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.Must(t, &joining.AuthorityPut{Root: old.Root.Raw, Sealed: []byte("k1")})
	tok := token(t)
	admission(t, c, tok, 1000)
	for i, n := range nodes {
		c.Must(t, join(string(n), trust.KeyID(fmt.Sprint("k", i)), tok))
		err := c.Store.Write(state.Stamp{Index: c.Store.Snapshot().Index() + 1, Time: time.Now()},
			func(tx *state.Tx) error {
				tx.PutNode(&node.Node{ID: n, Name: fmt.Sprint("n", i)})
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd = &joining.AuthorityRotate{
		After:  old.Root.Raw,
		Root:   next.Root.Raw,
		Cross:  cross,
		Sealed: []byte("k2"),
		By:     "ann",
	}
	return cmd, trust.KeyOf(next.Root)
}

// TestARootIsReplacedOnce: by one that follows it, and not before the one before it is forgotten.
func TestARootIsReplacedOnce(t *testing.T) {
	c := localstate.New(t)
	cmd, _ := rotated(t, c)
	stray := *cmd
	stray.After = []byte("another")
	if _, _, err := c.Propose(t.Context(), &stray); !fault.Has(err, fault.Conflict) {
		t.Errorf("after another root: %v", err)
	}
	c.Must(t, cmd)
	c.Must(t, cmd) // the answer was lost
	a := c.Store.Snapshot().Authority(nil)
	if string(a.Root) != string(cmd.Root) || string(a.Sealed) != "k2" || a.By != "ann" || len(a.Former) != 1 ||
		string(a.Former[0].Root) != string(cmd.After) || string(a.Former[0].Cross) != string(cmd.Cross) ||
		a.Former[0].Until.Sub(a.Created) != trust.Overlap {
		t.Errorf("%+v", a)
	}
	third := *cmd
	third.After, third.Root = cmd.Root, []byte("third")
	if _, _, err := c.Propose(t.Context(), &third); !fault.Has(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "berth operator ca finish") {
		t.Errorf("a third one beside: %v", err)
	}
	c.Must(t, &joining.AuthorityFinish{Early: true})
	c.Must(t, &third)
}

// TestAFormerRootIsForgottenWhenAllKnowTheNext: it is refused while nodes of the cluster have not shown that they do,
// and names them; a person may force it. By itself it goes when its time is over, and not before.
func TestAFormerRootIsForgottenWhenAllKnowTheNext(t *testing.T) {
	c := localstate.New(t)
	shown, silent := ids.Node(ids.New()), ids.Node(ids.New())
	denied, gone := ids.Node(ids.New()), ids.Node(ids.New())
	cmd, key := rotated(t, c, shown, silent, denied)
	tok := token(t)
	admission(t, c, tok, 9)
	c.Must(t, join(string(gone), "gone", tok)) // its record was collected
	c.Must(t, cmd)
	late := ids.Node(ids.New())
	c.Must(t, join(string(late), "late", tok))
	c.Must(t, &joining.Deny{Node: denied, Reason: "stolen"})
	former := func() int { return len(c.Store.Snapshot().Authority(nil).Former) }

	c.Must(t, &joining.AuthorityFinish{})
	if former() != 1 {
		t.Error("it is forgotten before its time")
	}
	knows := join(string(shown), "k0", tok)
	knows.Root = key
	c.Must(t, knows)
	knows.Root = ""
	c.Must(t, knows) // an older agent renews
	_, _, err := c.Propose(t.Context(), &joining.AuthorityFinish{Early: true})
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "n1 ("+string(silent)+")") ||
		!strings.Contains(err.Error(), "-force") || former() != 1 {
		t.Errorf("%v", err)
	}
	for _, id := range []ids.Node{shown, denied, gone, late} {
		if strings.Contains(fmt.Sprint(err), string(id)) {
			t.Errorf("node %s is named: %v", id, err)
		}
	}
	silentKnows := join(string(silent), "k1", tok)
	silentKnows.Root = "another"
	c.Must(t, silentKnows)
	if _, _, err := c.Propose(t.Context(), &joining.AuthorityFinish{Early: true}); err == nil {
		t.Error("a node that has shown another root counts")
	}
	silentKnows.Root = key
	c.Must(t, silentKnows)
	for range 2 { // the answer may be lost
		c.Must(t, &joining.AuthorityFinish{Early: true})
	}
	if former() != 0 {
		t.Error("it is not forgotten")
	}

	c = localstate.New(t)
	many := make([]ids.Node, 25)
	for i := range many {
		many[i] = ids.Node(ids.New())
	}
	cmd, _ = rotated(t, c, many...)
	c.Must(t, cmd)
	_, _, err = c.Propose(t.Context(), &joining.AuthorityFinish{Early: true})
	if err == nil || !strings.Contains(err.Error(), "and 5 more") {
		t.Errorf("of 25: %v", err)
	}
	c.Must(t, &joining.AuthorityFinish{Early: true, Force: true})
	if former() != 0 {
		t.Error("forced, it is not forgotten")
	}
}

var _ fsm.Releasing = (*joining.AuthorityFinish)(nil)
