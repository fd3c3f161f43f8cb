// Package images owns the images of the driver docker: how they come, who one is at registries, and when those go that
// were fetched and that nothing uses. The driver imports it.
package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker/spec"
)

// Config says how images come and go.
type Config struct {
	PullTimeout         time.Duration // of one image; 0: five minutes
	PullActivityTimeout time.Duration // how long a pull may make no progress; 0: two minutes
	AuthFile            string        // in the form of Docker's config.json; empty: none
	AuthHelper          string        // docker-credential-<name>; empty: none
	Keep                bool          // they are not removed when nothing uses them
	Delay               time.Duration // how long nothing has to use an image
	Dir                 string        // where it is written down which were fetched; empty: nowhere

	Tell func(id ids.Alloc, task, text string, annotations map[string]string) // makes an event of a task
	Log  *slog.Logger
}

// DefaultDelay is how long nothing has to use an image before it is removed.
const DefaultDelay = 3 * time.Minute

const (
	defaultPullTimeout     = 5 * time.Minute
	defaultActivityTimeout = 2 * time.Minute
)

// Images knows which containers use which images, and which images were fetched for tasks: those alone are removed when
// nothing uses them. What the node's people fetched stays.
type Images struct {
	cfg   Config
	api   *dockerapi.Client
	pulls pulls

	changed  lifecycle.Signal
	removing sync.RWMutex // held to write while one is removed, and to read while one is looked for and held

	mu   sync.Mutex
	uses map[string]map[string]bool // containers, and starts of such, by image
	own  map[string]string          // that were fetched, by their names
	due  map[string]time.Time       // that nothing uses, and when they go
}

// New returns the images of a daemon. It reads which an earlier run of the agent has fetched.
func New(cfg Config, api *dockerapi.Client) *Images {
	if cfg.PullTimeout == 0 {
		cfg.PullTimeout = defaultPullTimeout
	}
	if cfg.PullActivityTimeout == 0 {
		cfg.PullActivityTimeout = defaultActivityTimeout
	}
	i := &Images{cfg: cfg, api: api}
	if err := i.load(); err != nil {
		cfg.Log.Warn("which images were fetched is not known: they stay", logkey.Driver, spec.Name, logkey.Error, err)
	}
	return i
}

// For is the image of a task. It is fetched if the daemon does not have it, or the job wants the newest. It stays until
// release is called: before its container is there, nothing else says that it is needed.
func (i *Images) For(
	ctx context.Context, cfg *driver.TaskConfig, o spec.Options,
) (found *dockerapi.Image, release func(), err error) {
	ref, err := parseReference(o.Text("image"))
	if err != nil {
		return nil, nil, err
	}
	holder := "start of " + cfg.Task + " in " + string(cfg.Alloc)
	if o.Text("load") == "" && !o.Yes("force_pull") && !ref.latest() {
		found, release, err := i.hold(ctx, ref.whole(), holder)
		if !fault.Has(err, fault.NotFound) {
			return found, release, err
		}
	}
	for tries := 1; ; tries++ {
		name, before, err := i.bring(ctx, cfg, o, ref)
		if err != nil {
			return nil, nil, err
		}
		found, release, err := i.hold(ctx, name, holder)
		if fault.Has(err, fault.NotFound) && tries < bringTries {
			continue // somebody removed it meanwhile
		}
		if err == nil && found.ID != before {
			if err = i.fetched(name, found.ID); err != nil {
				release()
			}
		}
		return found, release, err
	}
}

// bringTries is how often an image is brought that is gone again before it can be held.
const bringTries = 3

// bring has the daemon fetch or load the image of a task, and returns the name that it has there, and which image had
// that name before.
func (i *Images) bring(
	ctx context.Context, cfg *driver.TaskConfig, o spec.Options, ref reference,
) (name, before string, err error) {
	if archive := o.Text("load"); archive != "" {
		name, err := i.loadArchive(ctx, cfg, archive, ref)
		return name, "", err
	}
	found, err := i.api.Image(ctx, ref.whole())
	switch {
	case err == nil:
		before = found.ID
	case !fault.Has(err, fault.NotFound):
		return "", "", err
	}
	return ref.whole(), before, i.fetch(ctx, cfg, o, ref)
}

// fetch has the daemon fetch an image.
func (i *Images) fetch(ctx context.Context, cfg *driver.TaskConfig, o spec.Options, ref reference) error {
	limit := i.cfg.PullTimeout
	if text := o.Text("image_pull_timeout"); text != "" {
		asked, err := time.ParseDuration(text)
		if err != nil || asked <= 0 {
			return fault.WithHint(fault.New(fault.Invalid, "", "config.image_pull_timeout",
				strconv.Quote(text)+" is no time"), `write as in "5m"`)
		}
		limit = asked
	}
	auth, err := i.auth(ctx, o, ref)
	if err != nil {
		return fault.Note(err, "pull", "image "+strconv.Quote(ref.whole()))
	}
	i.cfg.Tell(cfg.Alloc, cfg.Task, "Downloading image "+ref.whole(), map[string]string{"image": ref.whole()})
	started := time.Now()
	if err := i.pulls.once(ctx, ref.whole(), func(ctx context.Context) error {
		return i.pull(ctx, cfg.Alloc, cfg.Task, ref, auth, limit)
	}); err != nil {
		return fault.Note(err, "pull", "image "+strconv.Quote(ref.whole()))
	}
	i.cfg.Tell(cfg.Alloc, cfg.Task, fmt.Sprintf("Image %s was downloaded in %s", ref.whole(),
		time.Since(started).Round(time.Second/10)), map[string]string{"image": ref.whole()})
	return nil
}

// sayEvery is how often an event says how far a pull is.
const sayEvery = 10 * time.Second

// pull pulls an image. One that makes no progress is given up before its time is over.
func (i *Images) pull(
	ctx context.Context, id ids.Alloc, task string, ref reference, auth *dockerapi.Auth, limit time.Duration,
) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stuck := false
	var mu sync.Mutex
	idle := time.AfterFunc(i.cfg.PullActivityTimeout, func() {
		mu.Lock()
		defer mu.Unlock()
		stuck = true
		cancel()
	})
	defer idle.Stop()
	said := time.Now()
	layers := map[string]dockerapi.Progress{}
	err := i.api.Pull(limited, ref.name, ref.tag, auth, func(p dockerapi.Progress) {
		if p == layers[p.ID] {
			return
		}
		layers[p.ID] = p
		idle.Reset(i.cfg.PullActivityTimeout)
		if time.Since(said) >= sayEvery {
			said = time.Now()
			i.cfg.Tell(id, task, "Downloading image "+ref.whole()+": "+progress(layers), map[string]string{
				"image": ref.whole(),
			})
		}
	})
	mu.Lock()
	defer mu.Unlock()
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case stuck:
		return fault.WithHint(fault.New(fault.Timeout, "", "", "nothing of it came for "+
			i.cfg.PullActivityTimeout.String()), "the agent's pull_activity_timeout says how long is waited")
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return fault.WithHint(fault.New(fault.Timeout, "", "", "it has not come within "+limit.String()),
			"raise image_pull_timeout in the task's config")
	}
	return err
}

// progress says how far a pull is.
func progress(layers map[string]dockerapi.Progress) string {
	var came, total int64
	whole := 0
	for _, p := range layers {
		came, total = came+p.Detail.Current, total+p.Detail.Total
		if p.Status == "Pull complete" || p.Status == "Already exists" {
			whole++
		}
	}
	return fmt.Sprintf("%d layers are there, %d of %d MiB of the others have come", whole, came>>20, total>>20)
}

// pulls are those under way: several tasks that want the same image wait for one.
type pulls struct {
	mu  sync.Mutex
	now map[string]*pulling
}

type pulling struct {
	done chan struct{}
	err  error
}

// once does something, or waits for who does it. Who waits for one that was given up by its own caller does it himself.
func (p *pulls) once(ctx context.Context, name string, fn func(context.Context) error) error {
	for {
		p.mu.Lock()
		other := p.now[name]
		if other == nil {
			if p.now == nil {
				p.now = map[string]*pulling{}
			}
			own := &pulling{done: make(chan struct{})}
			p.now[name] = own
			p.mu.Unlock()
			own.err = fn(ctx)
			p.mu.Lock()
			delete(p.now, name)
			p.mu.Unlock()
			close(own.done)
			return own.err
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-other.done:
			if !errors.Is(other.err, context.Canceled) {
				return other.err
			}
		}
	}
}

// reference is the name of an image.
type reference struct {
	domain string // of its registry; empty: Docker's own
	name   string // with the registry
	tag    string // or digest; empty: it is an id
}

// parseReference reads "registry:5000/name:tag", "name@sha256:…" or "sha256:…".
func parseReference(text string) (reference, error) {
	text = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(text), "https://"), "http://")
	if text == "" || strings.ContainsAny(text, " \t\n?#%") {
		return reference{}, fault.WithHint(fault.New(fault.Invalid, "", "config.image", strconv.Quote(text)+
			" is no name of an image"), `write as in "redis:7"`)
	}
	if strings.HasPrefix(text, "sha256:") {
		return reference{name: text}, nil
	}
	r := reference{name: text, tag: "latest"}
	if name, digest, ok := strings.Cut(text, "@"); ok {
		r.name, r.tag = name, digest
	} else if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, '/') {
		r.name, r.tag = text[:i], text[i+1:]
	}
	if first, _, ok := strings.Cut(r.name, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		r.domain = first
	}
	return r, nil
}

func (r reference) latest() bool { return r.tag == "latest" }

func (r reference) whole() string {
	switch {
	case r.tag == "":
		return r.name
	case strings.Contains(r.tag, ":"):
		return r.name + "@" + r.tag
	}
	return r.name + ":" + r.tag
}
