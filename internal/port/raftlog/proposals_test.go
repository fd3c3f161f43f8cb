package raftlog

import (
	"context"
	"slices"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
)

// carried hears of each group that is under way, and lets it end.
type carried struct {
	begun chan []*proposal
	end   chan struct{}
}

func (c carried) carry(all []*proposal) {
	c.begun <- all
	<-c.end
}

func (c carried) next(t *testing.T) []*proposal {
	t.Helper()
	select {
	case all := <-c.begun:
		return all
	case <-time.After(30 * time.Second):
		t.Fatal("no group begins")
		return nil
	}
}

// TestProposalsWaitForNobodyUntilThereAreMany: as many groups as may be under way take one entry each, at once; what
// comes meanwhile goes together in the first that follows, each entry once and in the order in which they came.
func TestProposalsWaitForNobodyUntilThereAreMany(t *testing.T) {
	g, _ := lifecycle.NewGroup(t.Context())
	c := carried{make(chan []*proposal), make(chan struct{})}
	q := &proposals{}
	add := func() *proposal {
		p := &proposal{ctx: t.Context(), ended: make(chan proposed, 1)}
		q.add(p, g, c.carry, nil)
		return p
	}
	for range mostGroups {
		if p := add(); !slices.Equal(c.next(t), []*proposal{p}) {
			t.Fatal("one that nobody is before of does not go alone")
		}
	}
	var more []*proposal
	for range 20 {
		more = append(more, add())
	}
	select {
	case all := <-c.begun:
		t.Fatalf("%d go beside all groups that may be under way", len(all))
	default:
	}
	c.end <- struct{}{}
	if got := c.next(t); !slices.Equal(got, more) {
		t.Errorf("%d go together of %d, or in another order", len(got), len(more))
	}
	close(c.end)
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if q.groups != 0 || len(q.queue) != 0 {
		t.Errorf("%d groups are left, and %d proposals", q.groups, len(q.queue))
	}
}

// TestNoProposalIsLeftWhenTheLogIsClosed: who comes when nothing is waited for any more is told so.
func TestNoProposalIsLeftWhenTheLogIsClosed(t *testing.T) {
	g, _ := lifecycle.NewGroup(t.Context())
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	l := New(Config{Dir: "x"}, &adder{})
	for range 2 * mostGroups {
		p := &proposal{ctx: t.Context(), ended: make(chan proposed, 1)}
		l.proposals.add(p, g, func([]*proposal) { t.Error("it is carried") }, l.closing("use log"))
		select {
		case e := <-p.ended:
			if !fault.Has(e.err, fault.Unavailable) {
				t.Errorf("it ends with %v", e.err)
			}
		default:
			t.Fatal("it does not end")
		}
	}
}

// TestWhatNobodyWaitsForIsNotBegun: an entry whose caller has given up before it went into the log does not go there.
func TestWhatNobodyWaitsForIsNotBegun(t *testing.T) {
	sm := &adder{}
	l := start(t, Config{Dir: t.TempDir()}, sm)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := l.Apply(ctx, number(5)); !fault.Has(err, fault.Timeout) {
		t.Errorf("the answer is %v", err)
	}
	if _, _, err := l.Apply(t.Context(), number(1)); err != nil {
		t.Fatal(err)
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	if sm.total() != 1 {
		t.Errorf("the sum is %d", sm.total())
	}
}
