package keepers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/claims"
	"berth/internal/server/controllers"
	"berth/internal/server/endpoint"
	"berth/internal/server/fsm"
	"berth/internal/server/volumes"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// event is something that was seen, of a volume: a call or its end, or an answer to a user.
type event struct{ volume, text, answer string }

// world is a server's storage with its nodes.
type world struct {
	t        *testing.T
	c        *localstate.Cluster
	dispatch *controllers.Dispatcher
	conn     wire.Conn
	users    *lifecycle.Group // calls of users
	keepers  func()           // ends them; nil: no leader
	provider *provider
	streams  map[ids.Node]func() // ends a node's stream of calls

	mu      sync.Mutex
	keyless bool            // nobody can open secrets
	full    bool            // the keepers can write nothing down
	said    strings.Builder // the keepers' log
	events  []event
	records map[string]string // as they were printed last
}

func newWorld(t *testing.T) *world {
	c := localstate.New(t)
	w := &world{
		t:        t,
		c:        c,
		dispatch: controllers.New(),
		streams:  map[ids.Node]func(){},
		records:  map[string]string{},
	}
	w.provider = newProvider(w)
	methods, pipe := wire.NewServer(nil), wire.NewPipe()
	endpoint.New(endpoint.Config{
		Store:       c.Store,
		Proposer:    c,
		Cluster:     leader.Alone{},
		Controllers: w.dispatch,
		Nodes:       w.provider,
		Secrets:     secrets{w},
		Log:         slog.New(slog.DiscardHandler),
	}).Register(methods)
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		t.Fatal(err)
	}
	w.conn = conn
	users, ctx := lifecycle.NewGroup(t.Context())
	users.Go("calls", func() error { return methods.Run(ctx, pipe.Listener()) })
	w.users = users
	t.Cleanup(func() {
		w.follow()
		w.users.Stop()
		_ = conn.Close() // in-process
		if err := w.users.Wait(); err != nil {
			t.Errorf("the calls ended with %v", err)
		}
	})
	w.lead()
	return w
}

// lead begins a term: its mark, and the keepers of production.
func (w *world) lead() {
	w.c.Must(w.t, &fsm.LineageMark{Mark: ids.New()})
	log := slog.New(slog.NewTextHandler(said{w}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	ck := claims.New(claims.Config{
		Store:    w.c.Store,
		Proposer: diskful{w},
		Dispatch: w.dispatch,
		Secrets:  secrets{w},
		Nodes:    w.provider,
		Log:      log,
	})
	vk := volumes.New(volumes.Config{
		Store:    w.c.Store,
		Proposer: diskful{w},
		Dispatch: w.dispatch,
		Secrets:  secrets{w},
		Nodes:    w.provider,
		Log:      log,
	})
	g, ctx := lifecycle.NewGroup(w.t.Context())
	g.Go("claims", func() error { return ck.Run(ctx) })
	g.Go("volumes", func() error { return vk.Run(ctx) })
	w.keepers = func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			w.t.Errorf("a keeper ended with %v", err)
		}
	}
}

// diskful is the log as the keepers have it: on a disk that may be full.
type diskful struct{ w *world }

// Propose implements fsm.Proposer.
func (d diskful) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	d.w.mu.Lock()
	full := d.w.full
	d.w.mu.Unlock()
	if full {
		return nil, 0, fault.New(fault.Exhausted, "write", "the log", "no space left on device")
	}
	return d.w.c.Propose(ctx, cmd)
}

// said takes what the keepers log for people.
type said struct{ w *world }

// Write implements io.Writer.
func (s said) Write(p []byte) (int, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.said.Write(p)
}

// follow ends the term.
func (w *world) follow() {
	if w.keepers != nil {
		w.keepers()
		w.keepers = nil
	}
}

func (w *world) tell(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// happened reports whether an event came since the story last printed.
func (w *world) happened(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.events, func(e event) bool { return e.text == text })
}

// changes prints every record that is not as it was printed last. The caller holds the lock.
func (w *world) changes() []string {
	now := map[string]string{}
	s := w.c.Store.Snapshot()
	for v := range s.Volumes(nil, wire.AllNamespaces, "") {
		st := v.Status
		text := string(st.Phase)
		if st.Presence != volume.Present {
			text += ", " + fmt.Sprint(st.Presence)
		}
		if st.Capacity > 0 {
			text += fmt.Sprintf(", %d bytes", st.Capacity)
		}
		if st.NodeExpandPending {
			text += ", grows on its nodes"
		}
		for _, line := range st.Observed.Sentences() {
			text += ", " + line
		}
		now["volume "+string(v.ID.ID)] = text + trouble(st.Executor, st.LastError, st.NextTry)
	}
	for a := range s.Attachments(nil) {
		text := fmt.Sprint(a.Presence)
		if a.Detaching {
			text += ", detaching"
		}
		name := "attachment " + string(a.Volume.ID) + " at " + string(a.Node)
		now[name] = text + trouble(a.Executor, a.LastError, a.NextTry)
	}
	for c := range s.Claims(nil) {
		now["claim "+string(c.Volume.ID)+" of "+string(c.Alloc)] = fmt.Sprint(c.State)
	}
	for sn := range s.VolumeSnapshots(nil) {
		now["snapshot of "+string(sn.Source)] = string(sn.Phase) + trouble(sn.Executor, sn.LastError, sn.NextTry)
	}
	for f := range s.Shortages(nil) {
		name, text := shortage(f)
		now[name] = text
		for a := range s.AllocsByNode(nil, f.Node) {
			if a.ServerTerminal() && !pluginjobs.Is(a) {
				now["alloc "+string(a.ID)+" is to stop"] = a.DesiredDescription
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] != w.records[name] {
			out = append(out, "  "+name+": "+now[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.records)) {
		if _, there := now[name]; !there {
			out = append(out, "  "+name+": gone")
		}
	}
	w.records = now
	return out
}

func trouble(executor ids.Node, lastError string, next time.Time) string {
	text := ""
	if executor != "" {
		text += ", executor " + string(executor)
	}
	if lastError != "" {
		text += ", error: " + lastError
	}
	if d := time.Until(next); !next.IsZero() && d > 0 {
		text += ", again in " + d.Round(time.Millisecond).String()
	}
	return text
}

// short takes the namespace off a subject.
func short(subject string) string { return strings.TrimPrefix(subject, "default/") }

// shortage names what a node cannot do for a plugin, and says how that stands.
func shortage(f *plugin.Shortage) (name, text string) {
	switch {
	case f.ExternalID != "":
		return "permanently refused at " + string(f.Node) + ": " + f.ExternalID, f.Reason
	case f.Over:
		text = "another may be tried"
	default:
		text = fmt.Sprintf("refused %d times", f.Tries) + trouble("", f.Reason, f.Until)
	}
	return "no room for " + string(f.Plugin) + " at " + string(f.Node), text
}
