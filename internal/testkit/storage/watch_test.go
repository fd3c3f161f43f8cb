package storage

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/port/driver"
	"berth/internal/server"
	"berth/internal/server/state"
	"berth/internal/server/views"
)

// watch collects, while a test runs, what the oracle will ask: it belongs to the rig, so that no test has to remember.
type watch struct {
	log text

	mu      sync.Mutex
	members []*member
	running map[*member]bool
	boots   map[*member]string
	agents  map[*member]uint64   // how often the agent was started
	heard   map[ids.Node]uint64  // the index of a node's record that is known
	server  *server.Server       // whose state is followed
	foreign map[ids.Alloc]bool   // processes of theirs lived when the servers' state came to be another that lacks them
	byHand  map[ids.Alloc]bool   // ended by a person
	wished  map[string]time.Time // since when a job is asked for
	volume  map[string]string    // of a job
	free    map[string]time.Time // since when nothing holds up a claim's release
	latest  map[string]oracle.Shown
	still   string // what was wanted when the quiet time began; empty: it is not quiet

	tasks   []oracle.TaskStart
	shown   []oracle.Shown
	works   []oracle.Work
	ends    []oracle.End
	obeyed  []oracle.Obeyed
	results map[matter]map[uint64]result // of controller calls by their numbers, as the newest agent start reported it
	applied map[call]bool                // the calls whose results have taken effect
	effects effects
	strays  []oracle.Stray
	quiets  []oracle.Quiet
	given   []oracle.Record
	secrets []string
}

func newWatch() *watch {
	return &watch{
		running: map[*member]bool{},
		boots:   map[*member]string{},
		agents:  map[*member]uint64{},
		heard:   map[ids.Node]uint64{},
		foreign: map[ids.Alloc]bool{},
		byHand:  map[ids.Alloc]bool{},
		wished:  map[string]time.Time{},
		volume:  map[string]string{},
		free:    map[string]time.Time{},
		latest:  map[string]oracle.Shown{},
		results: map[matter]map[uint64]result{},
		applied: map[call]bool{},
	}
}

// text is a log that can be read while it is written.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

func (w *watch) all() []*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.members)
}

// joins hears of what a node's driver does.
func (w *watch) joins(m *member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = append(w.members, m)
	w.boots[m] = m.boot
}

// agentStart is the name under which a node's description tells by which of its agent's starts it was made.
const agentStart = "agent_start"

// starts hears of an agent run: its driver may be another, and so may the boot. What it returns goes into the node's
// description, and its log, which tells of the calls that it makes.
func (w *watch) starts(m *member) (map[string]string, *slog.Logger) {
	m.driver.OnStart = func(cfg *driver.TaskConfig) { w.started(m, cfg) }
	m.driver.OnStop = func(cfg *driver.TaskConfig) { w.stopped(m, cfg) }
	w.mu.Lock()
	rebooted := w.boots[m] != m.boot
	w.boots[m], w.running[m] = m.boot, true
	w.agents[m]++
	number := w.agents[m]
	w.mu.Unlock()
	if rebooted {
		m.p.Mark(proxy.Rebooted, proxy.Entry{Node: m.p.Node})
	}
	log := slog.New(&agentLog{Handler: m.c.log.Handler(), w: w, m: m, start: number})
	return map[string]string{agentStart: strconv.FormatUint(number, 10)}, log
}

// stops hears of the end of an agent run. If nothing is under way then, the time is quiet until something is wanted.
func (w *watch) stops(m *member, s *state.Snap) {
	w.beneath(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[m] = false
	if w.still == "" && settled(s) {
		now := time.Now()
		w.still = wanted(s)
		w.quiets = append(w.quiets, oracle.Quiet{From: now, To: now})
	}
}

func (w *watch) started(m *member, cfg *driver.TaskConfig) {
	var paths []string
	for _, mount := range cfg.Mounts {
		paths = append(paths, mount.Source)
	}
	for _, path := range m.sources(paths) {
		start := oracle.TaskStart{
			At:      time.Now(),
			Node:    m.p.Node,
			Target:  path,
			Mounted: mounted(path),
		}
		w.mu.Lock()
		w.tasks = append(w.tasks, start)
		w.mu.Unlock()
	}
}

func (w *watch) stopped(m *member, cfg *driver.TaskConfig) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := oracle.End{
		At:    time.Now(),
		Node:  m.p.Node,
		Alloc: string(cfg.Alloc),
		Known: !w.foreign[cfg.Alloc],
	}
	if w.byHand[cfg.Alloc] {
		end.By = "the test, as an operator"
	}
	w.ends = append(w.ends, end)
}

// living are the processes whose volume is at a target, by the drivers' own tables.
func (w *watch) living(target string) []string {
	out := []string{}
	for _, m := range w.all() {
		for _, cfg := range m.driver.Living() {
			if slices.ContainsFunc(cfg.Mounts, func(x driver.Mount) bool { return x.Source == target }) {
				out = append(out, fmt.Sprintf("task %s of alloc %s", cfg.Task, ids.Short(cfg.Alloc)))
			}
		}
	}
	return out
}

// writers are the processes that may write to a volume, by the drivers' own tables: a target lies in a directory of its
// volume and its alloc.
func (w *watch) writers(externalID string) []proxy.Writer {
	out := []proxy.Writer{}
	for _, m := range w.all() {
		for _, cfg := range m.driver.Living() {
			own := filepath.Dir(evidence.TargetTail(externalID, cfg.Alloc))
			if slices.ContainsFunc(cfg.Mounts, func(x driver.Mount) bool {
				return !x.ReadOnly && strings.HasSuffix(filepath.Dir(x.Source), "/"+own)
			}) {
				out = append(out, proxy.Writer{
					Node: m.p.Node,
					What: fmt.Sprintf("task %s of alloc %s", cfg.Task, ids.Short(cfg.Alloc)),
				})
			}
		}
	}
	return out
}

// follow hears of a servers' state that begins to be followed: it may be another than the one before. What it holds of
// nodes was heard at some time; only what changes of it from now on is an act.
func (w *watch) follow(srv *server.Server) {
	s := srv.Store().Snapshot()
	w.mu.Lock()
	w.server = srv
	w.effects = effects{}
	clear(w.heard)
	for n := range s.Nodes(nil, "") {
		w.heard[n.ID] = n.ModifyIndex
	}
	w.mu.Unlock()
	for _, m := range w.all() {
		for _, cfg := range m.driver.Living() {
			if s.Alloc(nil, cfg.Alloc) == nil {
				w.mu.Lock()
				w.foreign[cfg.Alloc] = true
				w.mu.Unlock()
			}
		}
	}
}

func (w *watch) endsByHand(id ids.Alloc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byHand[id] = true
}

// adopted hears that the servers' state knows an alloc from now on.
func (w *watch) adopted(id ids.Alloc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.foreign, id)
}

// asked and took measure work that a hanging plugin must not delay.
func (w *watch) asked(job, volume string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wished[job], w.volume[job] = time.Now(), volume
}

// runs ends the measure of a job's start.
func (w *watch) runs(job string, s *state.Snap) {
	w.mu.Lock()
	from, name := w.wished[job], w.volume[job]
	delete(w.wished, job)
	w.mu.Unlock()
	if v := s.Volume(nil, volID(name)); v != nil && !from.IsZero() {
		w.took("the start of job "+job, v.Status.ExternalID, from)
	}
}

func (w *watch) took(what, externalID string, from time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.works = append(w.works, oracle.Work{
		What:   what,
		Volume: externalID,
		From:   from,
		To:     time.Now(),
		Limit:  patience,
	})
}

// look observes the servers' state until the test ends.
func (c *cluster) look(ctx context.Context) error {
	for ctx.Err() == nil {
		srv := c.live.Load()
		c.watch.see(srv, srv.Store().Snapshot())
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (w *watch) see(srv *server.Server, s *state.Snap) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if srv == w.server { // one that is starting goes through all that it had heard before
		w.hear(s, now)
		w.apply(s)
	}
	if w.still != "" {
		if wanted(s) != w.still {
			w.still = ""
		} else {
			w.quiets[len(w.quiets)-1].To = now
		}
	}
	for cl := range s.Claims(nil) {
		w.note(w.claim(s, cl, now))
	}
	for a := range s.Attachments(nil) {
		w.note(attachment(s, a, now))
	}
}

// hear notes which agent start of a node the servers have believed.
func (w *watch) hear(s *state.Snap, now time.Time) {
	for n := range s.Nodes(nil, "") {
		number, err := strconv.ParseUint(n.Meta[agentStart], 10, 64)
		if err != nil || n.ModifyIndex <= w.heard[n.ID] {
			continue // a node that a test has made up, or nothing new
		}
		w.heard[n.ID] = n.ModifyIndex
		w.obeyed = append(w.obeyed, oracle.Obeyed{
			At:    now,
			Node:  string(n.ID),
			Start: number,
			What:  "registration",
		})
	}
}

// note keeps what is shown when it is another than before, and now and then when it stays.
func (w *watch) note(x oracle.Shown) {
	old, again := w.latest[x.What]
	same := again && old.State == x.State && old.Tries == x.Tries && old.Last == x.Last && old.Owner == x.Owner &&
		len(old.Missing) == len(x.Missing)
	if same && x.At.Sub(old.At) < time.Second {
		return
	}
	w.latest[x.What] = x
	w.shown = append(w.shown, x)
}

func (w *watch) claim(s *state.Snap, cl *volume.Claim, now time.Time) oracle.Shown {
	x := oracle.Shown{
		At:      now,
		What:    fmt.Sprintf("claim of alloc %s on %s of epoch %s", ids.Short(cl.Alloc), cl.Volume, cl.Epoch),
		Owner:   string(cl.Alloc),
		State:   string(cl.State),
		Since:   cl.Since,
		Passing: cl.State == volume.Releasing,
		Reason:  waitsFor(s, cl),
	}
	v := s.Volume(nil, cl.Volume)
	if v == nil {
		x.Missing = append(x.Missing, "volume "+cl.Volume.String())
	} else {
		x.Volume = v.Status.ExternalID
	}
	if s.Node(nil, cl.Node) == nil {
		x.Missing = append(x.Missing, "node "+ids.Short(cl.Node))
	}
	if s.Alloc(nil, cl.Alloc) == nil {
		x.Missing = append(x.Missing, "alloc "+ids.Short(cl.Alloc))
	}
	if !x.Passing || w.heldUp(cl.Alloc) {
		delete(w.free, x.What)
		return x
	}
	if w.free[x.What].IsZero() {
		w.free[x.What] = now
	}
	x.Free = w.free[x.What]
	return x
}

// waitsFor is what people are shown that a claim's release waits for, beside for whom it is and since when.
func waitsFor(s *state.Snap, cl *volume.Claim) string {
	v := s.VolumeOf(nil, cl.Staging())
	if v == nil || cl.State != volume.Releasing {
		return cl.Reason
	}
	since := cl.Since.UTC().Format(time.RFC3339)
	for _, line := range views.Of(s, nil).Volume(v).State {
		if _, after, found := strings.Cut(line, since); found && strings.Contains(line, ids.Short(cl.Alloc)) {
			return strings.TrimLeft(after, ":; ")
		}
	}
	return ""
}

// heldUp reports whether a release cannot end yet: a process lives, an agent does not run, or an orphan is in the way.
func (w *watch) heldUp(id ids.Alloc) bool {
	for _, m := range w.members {
		if !w.running[m] || slices.ContainsFunc(m.driver.Living(), func(cfg driver.TaskConfig) bool {
			return cfg.Alloc == id || w.foreign[cfg.Alloc]
		}) {
			return true
		}
	}
	return false
}

func attachment(s *state.Snap, a *volume.Attachment, now time.Time) oracle.Shown {
	x := oracle.Shown{
		At:     now,
		What:   "attachment of " + a.Volume.String() + " to node " + ids.Short(a.Node),
		Volume: a.ExternalID,
		Owner:  string(a.Node),
		State:  fmt.Sprintf("%v, detaching %t", a.Presence, a.Detaching),
		Since:  a.Since,
		Tries:  a.Tries,
		Last:   a.LastError,
		Next:   a.NextTry,
	}
	if s.Node(nil, a.Node) == nil {
		x.Missing = append(x.Missing, "node "+ids.Short(a.Node))
	}
	if s.Volume(nil, a.Volume) == nil {
		x.Missing = append(x.Missing, "volume "+a.Volume.String())
	}
	return x
}

// settled reports whether nothing is under way.
func settled(s *state.Snap) bool {
	for a := range s.Allocs(nil, "") {
		if !a.ClientTerminal() && (a.ClientStatus != alloc.ClientRunning || a.DesiredStatus != alloc.DesiredRun) {
			return false
		}
	}
	for cl := range s.Claims(nil) {
		if cl.State != volume.Held {
			return false
		}
	}
	for a := range s.Attachments(nil) {
		if a.Detaching || a.Presence != volume.Present {
			return false
		}
	}
	for v := range s.Volumes(nil, "", "") {
		if v.Status.Phase != volume.PhaseReady || v.Status.NodeExpandPending {
			return false
		}
	}
	return true
}

// wanted is everything that is wanted, and which nodes are there for it: as long as it stays, nothing is to change.
func wanted(s *state.Snap) string {
	var out []string
	for a := range s.Allocs(nil, "") {
		if !a.ClientTerminal() {
			out = append(out, fmt.Sprint("alloc ", a.ID, a.DesiredStatus, a.ClientStatus))
		}
	}
	for v := range s.Volumes(nil, "", "") {
		out = append(out, fmt.Sprint("volume ", v.ID, v.Status.Phase, v.Status.WantedMin))
	}
	for sn := range s.VolumeSnapshots(nil) {
		out = append(out, fmt.Sprint("snapshot ", sn.ID, sn.Phase))
	}
	for cl := range s.Claims(nil) {
		out = append(out, fmt.Sprint("claim ", cl.Key(), cl.State))
	}
	for n := range s.Nodes(nil, "") {
		out = append(out, fmt.Sprint("node ", n.ID, n.Status, len(n.Orphans)))
	}
	slices.Sort(out)
	return "wanted: " + strings.Join(out, ", ")
}
