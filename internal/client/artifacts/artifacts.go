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
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/artifact"
	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/sizes"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
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

// atOnce is how many artifacts of a node are fetched at a time.
const atOnce = 4

// Hook fetches artifacts.
type Hook struct {
	Settings
	turns chan struct{}
}

// New returns the hook of all tasks of a node. It starts nothing.
func New(s Settings) *Hook { return &Hook{Settings: s, turns: make(chan struct{}, atOnce)} }

var _ hook.Prestarter = (*Hook)(nil)

// Name implements hook.Hook.
func (*Hook) Name() string { return "artifact" }

// marker is the file, in a task's directory and out of the task's reach, that says which artifacts are there.
const marker = ".artifacts"

// wanted is one artifact as it is on this node.
type wanted struct {
	Request fetch.Request
	Place   fetch.Place
	name    string // for people
	dir     string // of the fetch, beneath Place.Root
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
	err = errors.Join(err, h.clear(all))
	if ctx.Err() != nil {
		return ctx.Err()
	}
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
	bounds := h.within(t.Group)
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
		w.Request.Bounds, w.Request.Guard = bounds, guard
		w.Place.Bounds = bounds
		first, _, _ := strings.Cut(w.Place.Rel, "/")
		if !slices.Contains([]string{job.LocalDir, job.SecretsDir, job.TmpDir}, first) || w.Place.Root == t.AllocDir {
			first = "." // of the same file system as its place
		}
		w.dir = path.Join(first, fmt.Sprintf(".artifact-%s-%d", ids.Segment(t.Task.Name), i))
		out = append(out, w)
	}
	return out, nil
}

func subject(i int, a *job.Artifact) string {
	return fmt.Sprintf("artifact %d (%q)", i+1, artifact.Shown(a.GetterSource))
}

// within are the bounds of one artifact: the disk that the group asks for is one, where tasks are held to it.
func (h *Hook) within(g *job.TaskGroup) fetch.Bounds {
	b := h.Bounds
	if h.UnlimitedDisks || g == nil || g.EphemeralDisk == nil || g.EphemeralDisk.SizeMB <= 0 {
		return b
	}
	disk := int64(g.EphemeralDisk.SizeMB) << 20
	for _, bound := range []*int64{&b.Received, &b.Unpacked} {
		if *bound == 0 || *bound > disk {
			*bound = disk
		}
	}
	return b
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
	return nil
}

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
	g, gctx := lifecycle.NewGroup(ctx)
	failed := make([]error, len(all)) // beside the group, which would put its name before the reason
	for i, w := range all {
		g.Go(w.name, func() error {
			if failed[i] = h.fetch(gctx, t, w); failed[i] != nil {
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
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, w := range all {
		if err := w.Place.Install(filepath.Join(w.Place.Root, w.dir), w.result); err != nil {
			return fault.Note(err, "fetch", w.name)
		}
	}
	return nil
}

// sayAfter is how long a fetch may take before the task says how far it has come; each time after twice as long.
const sayAfter = 15 * time.Second

func (h *Hook) fetch(ctx context.Context, t *hook.Task, w *wanted) error {
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	child := &fetch.Child{Environment: given(h.Environment), Unconfined: h.Unconfined, Readable: h.Readable}
	if t.User != "" && os.Geteuid() == 0 {
		u, err := users.Resolve(t.User)
		if err != nil {
			return err
		}
		child.UID, child.GID = u.UID, u.GID
	}
	root, err := os.OpenRoot(w.Place.Root)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", w.Place.Root)
	}
	err = child.Make(root, w.dir)
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	next, patience := time.Now().Add(sayAfter), sayAfter
	w.result, err = child.Run(ctx, filepath.Join(w.Place.Root, w.dir), &w.Request, func(p fetch.Progress) {
		if time.Now().Before(next) {
			return
		}
		patience *= 2
		next = time.Now().Add(patience)
		of := ""
		if p.Total > 0 {
			of = " of " + sizes.Human(p.Total)
		}
		say(t, fmt.Sprintf("Of %s, %s%s is here", w.name, sizes.Human(p.Received), of))
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Note(err, "fetch", w.name)
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

// clear removes the directories of fetches.
func (h *Hook) clear(all []*wanted) (err error) {
	for _, w := range all {
		root, oerr := os.OpenRoot(w.Place.Root)
		if errors.Is(oerr, fs.ErrNotExist) {
			continue
		}
		if oerr != nil {
			err = errors.Join(err, fault.Wrap(oerr, fault.Internal, "open", w.Place.Root))
			continue
		}
		err = errors.Join(err, fault.Wrap(root.RemoveAll(w.dir), fault.Internal, "remove", w.dir), root.Close())
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
