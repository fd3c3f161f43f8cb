// Package artifacts owns that a task finds in its directories, before it starts, what its artifact blocks name: it says
// what is fetched and where it belongs, has it fetched by children (port/fetch), several side by side, and puts it in
// its place when all of it is there. Package client makes it a hook of every task.
package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/artifact"
	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/base/sizes"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
	"berth/internal/port/fetch"
	"berth/internal/port/users"
)

// Settings are what the agent's configuration says.
type Settings struct {
	Bounds  fetch.Bounds
	Allowed []netip.Prefix // addresses that are asked although they would be refused
	Ports   []uint16       // at which the agent answers
	// Environment names what children have of the agent's.
	Environment []string
	Unconfined  bool
	Readable    []string
	// UnlimitedDisks: tasks are held to no disk, and artifacts neither.
	UnlimitedDisks bool
}

// Hook fetches artifacts.
type Hook struct {
	Settings
	turns turns
}

// New returns the hook of all tasks of a node. It starts nothing.
func New(s Settings) *Hook { return &Hook{Settings: s} }

var _ hook.Prestarter = (*Hook)(nil)

// Name implements hook.Hook.
func (*Hook) Name() string { return "artifact" }

// marker is the file, in a task's directory and out of the task's reach, that says which artifacts are there.
const marker = stagePrefix + "s"

// wanted is one artifact as it is on this node.
type wanted struct {
	Request fetch.Request
	Place   fetch.Place
	name    string // for people
	base    string // the directory in which it is fetched
	stage   string // the name of the fetch's own in there
	held    *fetch.Stage
	result  *fetch.Result
}

// Prestart fetches what is not there. A restart of the task finds what the first start has fetched; what an agent that
// died has left of its fetches goes.
func (h *Hook) Prestart(ctx context.Context, t *hook.Task) error {
	if len(t.Task.Artifacts) == 0 || t.Restored {
		return nil
	}
	all, err := h.plan(t)
	if err != nil {
		return failure(err)
	}
	sum, err := digest(all)
	if err != nil {
		return failure(err)
	}
	if have, err := os.ReadFile(filepath.Join(t.TaskDir, marker)); err == nil && string(have) == sum {
		return nil
	}
	began := time.Now()
	say(t, fmt.Sprintf("Downloading %s", counted(len(all))))
	err = h.bring(ctx, t, all)
	cleared := h.clear(all)
	if ctx.Err() != nil {
		if cleared != nil {
			say(t, "What was fetched is still there: "+cleared.Error())
		}
		return errors.Join(ctx.Err(), cleared)
	}
	err = errors.Join(err, cleared)
	if err != nil {
		return failure(err)
	}
	if err := persist(t, all, sum); err != nil {
		return failure(err)
	}
	say(t, fmt.Sprintf("Downloaded %s in %s", counted(len(all)), time.Since(began).Round(time.Millisecond)))
	return nil
}

func failure(err error) error { return &hook.Failure{Event: alloc.EventNotDownloaded, Err: err} }

func say(t *hook.Task, text string) {
	t.Emit(&alloc.TaskEvent{Type: alloc.EventDownloading, DisplayMessage: text, Message: text})
}

func counted(n int) string {
	if n == 1 {
		return "1 artifact"
	}
	return strconv.Itoa(n) + " artifacts"
}

// plan says what is fetched and where it belongs, with the task's environment filled in.
func (h *Hook) plan(t *hook.Task) ([]*wanted, error) {
	var out []*wanted
	mine, err := own()
	if err != nil {
		return nil, err
	}
	guard := fetch.Guard{Allowed: h.Allowed, Ports: h.Ports, Own: mine}
	for i, a := range t.Task.Artifacts {
		w, err := h.want(t, a)
		if err != nil {
			return nil, fault.Note(err, "fetch", subject(i, a))
		}
		w.name = subject(i, a)
		w.Request.Guard = guard
		w.base = t.TaskDir // where no task writes; what is fetched is moved to its place, on the same file system
		if first, _, _ := strings.Cut(w.Place.Rel, "/"); first == job.SecretsDir && w.Place.Root == t.TaskDir {
			w.base = filepath.Join(t.TaskDir, job.SecretsDir) // in memory
		}
		w.stage = fmt.Sprintf("%s-%d", stagePrefix, i)
		out = append(out, w)
	}
	return out, nil
}

func subject(i int, a *job.Artifact) string {
	return fmt.Sprintf("artifact %d (%q)", i+1, artifact.Shown(a.GetterSource))
}

// own are the addresses of the node as they are now.
func own() (out []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "list", "the addresses of the node")
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out, nil
}

func (h *Hook) want(t *hook.Task, a *job.Artifact) (*wanted, error) {
	text, err := t.Interpolate(a.GetterSource)
	if err != nil {
		return nil, err
	}
	options, err := replaced(t, a.GetterOptions)
	if err != nil {
		return nil, err
	}
	headers, err := replaced(t, a.GetterHeaders)
	if err != nil {
		return nil, err
	}
	s, err := artifact.Parse(text, options)
	if err != nil {
		return nil, err
	}
	if err := s.Fits(a.GetterMode); err != nil {
		return nil, err
	}
	w := &wanted{Request: fetch.Request{Source: *s, Mode: a.GetterMode, Headers: headers, Insecure: a.GetterInsecure}}
	w.Place.UID, w.Place.GID = -1, -1
	if a.Chown {
		if w.Place.UID, w.Place.GID, err = users.Owner(t.User); err != nil {
			return nil, err
		}
	}
	return w, w.locate(t, a)
}

func replaced(t *hook.Task, in map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		value, err := t.Interpolate(in[name])
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

// locate says where an artifact belongs. A directory of the task's is a place for what is a directory.
func (w *wanted) locate(t *hook.Task, a *job.Artifact) error {
	dest := a.RelativeDest
	if w.Place.File = a.GetterMode == artifact.File; !w.Place.File {
		dest = path.Join(dest, "x")
		if strings.HasPrefix(a.RelativeDest, "${") { // what it stands for may end in a slash
			dest = strings.TrimSuffix(a.RelativeDest, "/") + "/x"
		}
	}
	root, rel, err := hook.Place(t, dest)
	if err != nil {
		return err
	}
	w.Place.Root, w.Place.Rel = root, rel
	if !w.Place.File {
		w.Place.Rel = path.Dir(rel)
	}
	return seen(t, root, rel)
}

// seen refuses a place that nobody meant, that the task does not see, or that is the agent's.
func seen(t *hook.Task, root, rel string) error {
	const way = "begin the destination with local/, secrets/ or alloc/"
	first, _, _ := strings.Cut(rel, "/")
	isolated := t.DriverInfo.Capabilities.FSIsolation != driver.IsolationNone
	switch {
	case strings.Contains(rel, "${"):
		return fault.WithHint(fault.New(fault.Invalid, "", "",
			fmt.Sprintf("destination %q has a variable that the task's environment does not", rel)),
			"set it; or write it without ${…}")
	case root != t.TaskDir:
		return nil
	case isolated && !slices.Contains([]string{job.LocalDir, job.SecretsDir, job.TmpDir}, first):
		return fault.WithHint(fault.New(fault.Invalid, "", "",
			fmt.Sprintf("destination %q is in no directory that the task sees", rel)), way)
	case strings.HasPrefix(first, stagePrefix):
		return fault.WithHint(fault.New(fault.Invalid, "", "",
			fmt.Sprintf("destination %q is the agent's own", rel)), way)
	}
	return nil
}

// stagePrefix begins the names of what the agent keeps of fetches in a task's directory.
const stagePrefix = ".artifact"

// digest is what all artifacts of a task come to.
func digest(all []*wanted) (string, error) {
	sum := sha256.New()
	for _, w := range all {
		r := w.Request
		r.Guard, r.Bounds = fetch.Guard{}, fetch.Bounds{} // the node's, not the artifact's
		data, err := json.Marshal([]any{r, w.Place.Root, w.Place.Rel, w.Place.File, w.Place.UID, w.Place.GID})
		if err != nil {
			return "", fault.Wrap(err, fault.Internal, "encode", w.name)
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// bring fetches everything, and then puts one after the other in its place: of two that have the same file, the later
// one's is there.
func (h *Hook) bring(ctx context.Context, t *hook.Task, all []*wanted) error {
	if err := h.clear(all); err != nil {
		return err
	}
	if err := h.receive(ctx, t, all); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, w := range all {
		if err := w.Place.Install(w.held, w.result); err != nil {
			return fault.Note(err, "fetch", w.name)
		}
	}
	return nil
}

// receive fetches everything, and ends when all is there or the first fails.
func (h *Hook) receive(ctx context.Context, t *hook.Task, all []*wanted) error {
	g, gctx := lifecycle.NewGroup(ctx)
	defer g.Stop()
	disk := h.available(t)
	failed := make([]error, len(all)+1) // beside the group, which would put its name before the reason
	var left atomic.Int64
	left.Store(int64(len(all)))
	var waits atomic.Int64
	waits.Store(int64(len(all)))
	whose := ownerOf(t.Job)
	for i, w := range all {
		g.Go(w.name, func() error {
			if failed[i] = h.turns.take(gctx, whose); failed[i] == nil {
				waits.Add(-1)
				failed[i] = h.fetch(gctx, t, w, disk)
				h.turns.leave(whose)
			}
			if failed[i] != nil || left.Add(-1) == 0 {
				g.Stop()
			}
			return nil
		})
	}
	g.Go("turns", func() error {
		sayWaiting(gctx, &waits, func(text string) { say(t, text) })
		return nil
	})
	if disk.limit > 0 {
		g.Go("disk", func() error {
			if failed[len(all)] = disk.watch(gctx); failed[len(all)] != nil {
				g.Stop()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, err := range failed {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	if err := ctx.Err(); err != nil || disk.limit == 0 {
		return err
	}
	_, _, err := disk.look(ctx)
	return err
}

// sayWaiting says, less and less often, how many have not begun.
func sayWaiting(ctx context.Context, waits *atomic.Int64, say func(text string)) {
	for pause := sayAfter; retry.Sleep(ctx, pause); pause *= 2 {
		if n := waits.Load(); n > 0 {
			say(fmt.Sprintf("Waiting for the turn of %s: %d of a job are fetched at a time", counted(int(n)), atOnce))
		}
	}
}

// sayAfter is how long a fetch may take before the task says how far it has come; each time after twice as long.
const sayAfter = 15 * time.Second

func (h *Hook) fetch(ctx context.Context, t *hook.Task, w *wanted, disk available) error {
	bounds, err := disk.bounds(ctx, h.Bounds)
	if err != nil {
		return err
	}
	w.Request.Bounds, w.Place.Bounds = bounds, bounds
	child := &fetch.Child{Environment: given(h.Environment), Unconfined: h.Unconfined, Readable: h.Readable}
	if t.User != "" && os.Geteuid() == 0 {
		u, err := users.Resolve(t.User)
		if err != nil {
			return err
		}
		child.UID, child.GID = u.UID, u.GID
	}
	root, err := os.OpenRoot(w.base)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", w.base)
	}
	if w.held, err = child.NewStage(root, w.stage); err != nil {
		return err
	}
	p := &pace{next: time.Now().Add(sayAfter), patience: sayAfter, name: w.name,
		say: func(text string) { say(t, text) }}
	w.result, err = child.Run(ctx, w.held, &w.Request, func(how fetch.Progress) {
		p.progress(time.Now(), how)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Note(err, "fetch", w.name)
}

// pace says how far a fetch has come, less and less often.
type pace struct {
	next     time.Time
	patience time.Duration
	name     string
	say      func(text string)
}

func (p *pace) progress(now time.Time, how fetch.Progress) {
	if now.Before(p.next) {
		return
	}
	p.patience *= 2
	p.next = now.Add(p.patience)
	of := ""
	if how.Total > 0 {
		of = " of " + sizes.Human(how.Total)
	}
	p.say(fmt.Sprintf("Of %s, %s%s is here", p.name, sizes.Human(how.Received), of))
}

// given are the variables of those names that the agent has.
func given(names []string) (out []string) {
	for _, name := range names {
		if v, set := os.LookupEnv(name); set {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// clear removes the directories of fetches: those of this one, and what another agent's have left.
func (h *Hook) clear(all []*wanted) (err error) {
	for _, w := range all {
		if w.held != nil {
			err = errors.Join(err, w.held.Remove(), w.held.Close())
			w.held = nil
		}
		root, oerr := os.OpenRoot(w.base)
		if errors.Is(oerr, fs.ErrNotExist) {
			continue
		}
		if oerr != nil {
			err = errors.Join(err, fault.Wrap(oerr, fault.Internal, "open", w.base))
			continue
		}
		err = errors.Join(err, fault.Wrap(root.RemoveAll(w.stage), fault.Internal, "remove", w.stage), root.Close())
	}
	return err
}

// persist has everything on the disk before it says that it is there.
func persist(t *hook.Task, all []*wanted, sum string) error {
	for _, dir := range slices.Compact([]string{t.TaskDir, all[0].Place.Root}) {
		f, err := os.Open(dir)
		if err != nil {
			return fault.Wrap(err, fault.Internal, "open", dir)
		}
		err = unix.Syncfs(int(f.Fd()))
		if err = errors.Join(err, f.Close()); err != nil {
			return fault.Wrap(err, fault.Exhausted, "write", dir)
		}
	}
	return durable.WriteFile(filepath.Join(t.TaskDir, marker), []byte(sum), 0o600)
}
