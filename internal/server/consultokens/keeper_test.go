package consultokens_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/server/consultokens"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// lists are the access lists of a Consul in memory.
type lists struct {
	mu        sync.Mutex
	tokens    map[string]string // secrets by accessor
	instances []string
	asked     int
	at, most  int                             // calls under way, and how many were at once
	before    func(*consul.ServiceToken)      // a token is made
	fail      func(call int) error            // instead of an answer
	hold      func(ctx context.Context) error // until somebody lets it go on
	revoked   []string
}

func (l *lists) ServiceToken(ctx context.Context, t *consul.ServiceToken) (redact.Secret, error) {
	l.mu.Lock()
	l.asked++
	call := l.asked
	l.at++
	l.most = max(l.most, l.at)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.at--
		l.mu.Unlock()
	}()
	if l.before != nil {
		l.before(t)
	}
	if l.hold != nil {
		if err := l.hold(ctx); err != nil {
			return redact.Secret{}, err
		}
	}
	if l.fail != nil {
		if err := l.fail(call); err != nil {
			return redact.Secret{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens == nil {
		l.tokens = map[string]string{}
	}
	if l.tokens[t.Accessor] == "" {
		l.tokens[t.Accessor] = fmt.Sprintf("secret of %s, number %d", t.Service, call)
	}
	return redact.New(l.tokens[t.Accessor]), nil
}

func (l *lists) Revoke(_ context.Context, accessor string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revoked = append(l.revoked, accessor)
	delete(l.tokens, accessor)
	return nil
}

func (l *lists) Instances(context.Context, string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.instances, nil
}

func (l *lists) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tokens)
}

// world is a state with allocations that run on node n, and a keeper.
func world(t *testing.T, l *lists, allocs ...ids.Alloc) (*localstate.Cluster, *consultokens.Keeper) {
	t.Helper()
	c := localstate.New(t)
	for _, id := range allocs {
		put(t, c, id, alloc.ClientRunning)
	}
	return c, consultokens.New(consultokens.Config{
		Store:    c.Store,
		Proposer: c,
		Consul:   l,
		Log:      slog.New(slog.DiscardHandler),
	})
}

func put(t *testing.T, c *localstate.Cluster, id ids.Alloc, status string) {
	t.Helper()
	c.Skip(1)
	stamp := state.Stamp{Index: c.Store.Snapshot().Index() + 1, Time: time.Now()}
	if err := c.Store.Write(stamp, func(tx *state.Tx) error {
		tx.PutAlloc(&alloc.Alloc{
			ID:            id,
			Namespace:     ids.DefaultNamespace,
			Job:           "j",
			Node:          "n",
			DesiredStatus: alloc.DesiredRun,
			ClientStatus:  status,
			ModifyTime:    time.Now().UnixNano(),
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func of(id ids.Alloc) consul.ServiceToken {
	return consul.ServiceToken{Alloc: id, Task: "proxy", Node: "n", Service: "web"}
}

// run runs the keeper until the function ends.
func run(t *testing.T, k *consultokens.Keeper, during func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	during()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestATokenIsWrittenDownBeforeItIsMade: given a server that ends when Consul has made a token and nobody has it, then
// it is known, and revoked when the allocation has ended.
func TestATokenIsWrittenDownBeforeItIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lists{}
		c, k := world(t, l, "a")
		l.before = func(made *consul.ServiceToken) {
			if row := c.Store.Snapshot().ConsulToken(nil, "a", "proxy"); row == nil || row.Accessor != made.Accessor ||
				row.Service != "web" || row.Node != "n" {
				t.Errorf("a token %+v is made, and written down is %+v", made, row)
			}
		}
		if _, err := k.Make(t.Context(), of("a")); err != nil || l.count() != 1 {
			t.Fatalf("%d tokens, %v", l.count(), err)
		}
		put(t, c, "a", alloc.ClientComplete)
		next := consultokens.New(consultokens.Config{Store: c.Store, Proposer: c, Consul: l,
			Log: slog.New(slog.DiscardHandler)})
		run(t, next, func() {
			time.Sleep(consul.MadeWithin + time.Minute)
			synctest.Wait()
		})
		if l.count() != 0 || c.Store.Snapshot().ConsulToken(nil, "a", "proxy") != nil {
			t.Errorf("there are %d tokens, revoked are %q", l.count(), l.revoked)
		}
	})
}

// TestATaskHasOneToken however often its node asks, and whatever Consul's answers come to.
func TestATaskHasOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lists{fail: func(call int) error {
			if call < 3 {
				return fault.New(fault.Unavailable, "ask", "Consul", "no leader")
			}
			return nil
		}}
		_, k := world(t, l, "a")
		first, err := k.Make(t.Context(), of("a"))
		if err != nil || l.asked != 3 {
			t.Fatalf("Consul was asked %d times, %v", l.asked, err)
		}
		again, err := k.Make(t.Context(), of("a"))
		if err != nil || !again.Equal(first) || l.count() != 1 {
			t.Errorf("it is another one: %d tokens, %v", l.count(), err)
		}
		other := of("a")
		other.Service = "db"
		if _, err := k.Make(t.Context(), other); !fault.Has(err, fault.Conflict) {
			t.Errorf("the task got a token for a second service: %v", err)
		}
	})
}

// TestWhatConsulRefusesIsNotAskedAgain: and what it does not answer ends with the call.
func TestWhatConsulRefusesIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lists{fail: func(int) error { return fault.New(fault.Denied, "ask", "Consul", "permission denied") }}
		_, k := world(t, l, "a")
		if _, err := k.Make(t.Context(), of("a")); !fault.Has(err, fault.Denied) || l.asked != 1 {
			t.Errorf("asked %d times: %v", l.asked, err)
		}
		l.fail = nil
		l.hold = func(ctx context.Context) error {
			<-ctx.Done()
			return fault.Wrap(ctx.Err(), fault.Unavailable, "reach", "Consul")
		}
		if _, err := k.Make(t.Context(), of("a")); !fault.Has(err, fault.Unavailable) {
			t.Errorf("a Consul that does not answer: %v", err)
		}
	})
}

// TestSoManyTokensAreMadeAtOnceAndNoMore: the others wait for theirs.
func TestSoManyTokensAreMadeAtOnceAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		l := &lists{hold: func(context.Context) error {
			<-goOn
			return nil
		}}
		var all []ids.Alloc
		for i := range 30 {
			all = append(all, ids.Alloc(fmt.Sprintf("a%d", i)))
		}
		_, k := world(t, l, all...)
		var g sync.WaitGroup
		for _, id := range all {
			g.Go(func() {
				if _, err := k.Make(t.Context(), of(id)); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		synctest.Wait()
		if l.most != 8 {
			t.Errorf("%d are made at once", l.most)
		}
		close(goOn)
		g.Wait()
		if l.most != 8 || l.count() != len(all) {
			t.Errorf("%d at once, %d in all", l.most, l.count())
		}
	})
}

// TestATokenGoesAfterTheServicesOfItsAlloc, and where they stay, as at a lost node that nobody takes them from, after a
// while.
func TestATokenGoesAfterTheServicesOfItsAlloc(t *testing.T) {
	for name, test := range map[string]struct {
		deregistered bool
		gone         bool
	}{
		"they are deregistered":       {true, true},
		"they were not yet":           {false, false},
		"they are never deregistered": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lists{instances: []string{"_berth-n-a-group-g-web-http", "_berth-n-b-group-g-web-http"}}
				c, k := world(t, l, "a", "b")
				for _, id := range []ids.Alloc{"a", "b"} {
					if _, err := k.Make(t.Context(), of(id)); err != nil {
						t.Fatal(err)
					}
				}
				run(t, k, func() {
					put(t, c, "a", alloc.ClientComplete)
					time.Sleep(30 * time.Second)
					if l.count() != 2 {
						t.Errorf("its services are in Consul, and revoked are %q", l.revoked)
					}
					if test.deregistered {
						l.mu.Lock()
						l.instances = l.instances[1:]
						l.mu.Unlock()
						time.Sleep(5 * time.Second)
					} else if test.gone {
						time.Sleep(3 * time.Minute)
					}
					synctest.Wait()
				})
				if gone := l.count() == 1; gone != test.gone {
					t.Errorf("it is revoked: %v", gone)
				}
				if c.Store.Snapshot().ConsulToken(nil, "b", "proxy") == nil {
					t.Error("that of an allocation which runs is forgotten")
				}
			})
		})
	}
}

// TestATokenThatComesLateIsRevokedToo: given a server that lost the lead while its request was under way, when Consul
// makes the token after the next leader revoked what there was, then that is revoked as well.
func TestATokenThatComesLateIsRevokedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lists{fail: func(int) error { return fault.New(fault.Denied, "", "", "the answer is lost") }}
		c, k := world(t, l, "a")
		if _, err := k.Make(t.Context(), of("a")); err == nil {
			t.Fatal("it was handed out")
		}
		row := c.Store.Snapshot().ConsulToken(nil, "a", "proxy")
		run(t, k, func() {
			put(t, c, "a", alloc.ClientFailed)
			time.Sleep(time.Minute)
			synctest.Wait()
			l.mu.Lock()
			if len(l.revoked) == 0 {
				t.Error("nothing was revoked")
			}
			l.tokens = map[string]string{row.Accessor: "late"}
			l.mu.Unlock()
			time.Sleep(consul.MadeWithin)
			synctest.Wait()
		})
		if l.count() != 0 || c.Store.Snapshot().ConsulToken(nil, "a", "proxy") != nil {
			t.Errorf("%d tokens stay", l.count())
		}
	})
}

// TestNoTokenIsMadeForWhatEndedMeanwhile: the command that writes it down looks once more.
func TestNoTokenIsMadeForWhatEndedMeanwhile(t *testing.T) {
	l := &lists{}
	c, k := world(t, l, "a")
	put(t, c, "a", alloc.ClientLost)
	if _, err := k.Make(t.Context(), of("a")); !fault.Has(err, fault.Denied) || l.asked != 0 {
		t.Errorf("Consul was asked %d times, %v", l.asked, err)
	}
	elsewhere := of("a")
	elsewhere.Node = "m"
	put(t, c, "a", alloc.ClientRunning)
	if _, err := k.Make(t.Context(), elsewhere); !fault.Has(err, fault.Denied) {
		t.Errorf("another node's: %v", err)
	}
}

// TestServersWithoutConsulSaySo and keep what is to be revoked.
func TestServersWithoutConsulSaySo(t *testing.T) {
	k := consultokens.New(consultokens.Config{Log: slog.New(slog.DiscardHandler)})
	if _, err := k.Make(t.Context(), of("a")); !fault.Has(err, fault.NotReady) ||
		!strings.Contains(err.Error(), "consul block") {
		t.Errorf("%v", err)
	}
}
