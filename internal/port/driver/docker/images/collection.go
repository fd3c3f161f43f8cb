package images

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver/docker/spec"
)

const imagesFile = "images.json"

// load reads which images an earlier run of the agent fetched. Nothing uses them before a task is found that does.
func (i *Images) load() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.uses, i.own = map[string]map[string]bool{}, map[string]string{}
	i.due = map[string]time.Time{}
	if i.cfg.Dir == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(i.cfg.Dir, imagesFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &i.own)
	}
	for _, id := range i.own {
		i.due[id] = time.Now().Add(max(i.cfg.Delay, leastDelay))
	}
	return fault.Wrap(err, fault.Internal, "read", filepath.Join(i.cfg.Dir, imagesFile))
}

// callLimit bounds calls that have nothing to wait for.
const callLimit = 30 * time.Second

// leastDelay is how long an image stays at least after the agent's start: its tasks are being found.
const leastDelay = time.Minute

// save writes down which images were fetched. It is called with mu held.
func (i *Images) save() error {
	if i.cfg.Dir == "" {
		return nil
	}
	text, err := json.Marshal(i.own)
	if err != nil {
		return err
	}
	if err := durable.MakeDir(i.cfg.Dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(i.cfg.Dir, imagesFile), text, 0o600)
}

// fetched notes an image that was fetched for a task. The same one may have other names, which are not this driver's.
func (i *Images) fetched(name, id string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.own[name]
	if before == id {
		return nil
	}
	if before != "" { // the one that had the name has none now, and goes by its id
		i.own[before] = before
		if len(i.uses[before]) == 0 {
			i.due[before] = time.Now().Add(i.cfg.Delay)
		}
	}
	i.own[name] = id
	return i.save()
}

// hold finds an image and has it stay until release is called. One that is just being removed is not found.
func (i *Images) hold(ctx context.Context, name, holder string) (found *dockerapi.Image, release func(), err error) {
	i.removing.RLock()
	defer i.removing.RUnlock()
	found, err = i.api.Image(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	i.Use(found.ID, holder)
	return found, func() { i.Free(found.ID, holder) }, nil
}

// Use notes that a container is made of an image.
func (i *Images) Use(id, container string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.uses[id] == nil {
		i.uses[id] = map[string]bool{}
	}
	i.uses[id][container] = true
	delete(i.due, id)
}

// Free notes that a container is gone.
func (i *Images) Free(id, container string) {
	i.mu.Lock()
	delete(i.uses[id], container)
	if len(i.uses[id]) == 0 {
		delete(i.uses, id)
	}
	if len(i.uses[id]) == 0 && slices.Contains(slices.Collect(maps.Values(i.own)), id) {
		i.due[id] = time.Now().Add(i.cfg.Delay)
	}
	i.mu.Unlock()
	i.changed.Notify()
}

// next is an image whose time has come, or how long there is none; 0: there is none at all.
func (i *Images) next(now time.Time) (id string, wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for image, at := range i.due {
		left := at.Sub(now)
		if left <= 0 {
			delete(i.due, image)
			return image, 0
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return "", wait
}

// names are those by which an image was fetched.
func (i *Images) names(id string) (out []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, of := range i.own {
		if of == id {
			out = append(out, name)
		}
	}
	return out
}

// gone notes that an image was removed.
func (i *Images) gone(name string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.own, name)
	return i.save()
}

// Collect removes images that nothing has used for a while, until ctx ends.
func (i *Images) Collect(ctx context.Context) error {
	for !i.cfg.Keep && ctx.Err() == nil {
		changed := i.changed.C()
		id, wait := i.next(time.Now())
		if id != "" {
			i.removeUnused(ctx, id)
			continue
		}
		var timer *time.Timer
		var late <-chan time.Time
		if wait > 0 {
			timer = time.NewTimer(wait)
			late = timer.C
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-late:
		}
		if timer != nil {
			timer.Stop()
		}
	}
	return nil
}

// removeUnused removes an image by the names by which it was fetched, unless something uses it by now.
func (i *Images) removeUnused(ctx context.Context, id string) {
	i.removing.Lock()
	defer i.removing.Unlock()
	i.mu.Lock()
	used := len(i.uses[id]) > 0
	i.mu.Unlock()
	if used {
		return // it is due again when that is gone
	}
	for _, name := range i.names(id) {
		if !i.removeImage(ctx, name) {
			i.mu.Lock()
			i.due[id] = time.Now().Add(max(i.cfg.Delay, leastDelay))
			i.mu.Unlock()
		}
	}
}

// removeImage removes one, and reports whether nothing is left to do. What somebody else's container uses stays, and is
// nobody's concern here any more.
func (i *Images) removeImage(ctx context.Context, name string) (over bool) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := i.named(limited, name)
	if err == nil {
		err = i.api.RemoveImage(limited, name)
	}
	switch {
	case err == nil:
		i.cfg.Log.Info("an image that nothing uses was removed", logkey.Driver, spec.Name, "image", name)
	case fault.Has(err, fault.Conflict), fault.Has(err, fault.NotFound):
	default:
		i.cfg.Log.Warn("an image that nothing uses could not be removed; it is tried again", logkey.Driver, spec.Name,
			"image", name, logkey.Error, err)
		return false
	}
	if err := i.gone(name); err != nil {
		i.cfg.Log.Warn("which images were fetched could not be written down", logkey.Driver, spec.Name,
			logkey.Error, err)
	}
	return true
}

// named is fault.Conflict where somebody has given an image of an archive, which has none, a name: by its id it would
// go with that.
func (i *Images) named(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, "sha256:") {
		return nil
	}
	found, err := i.api.Image(ctx, name)
	if err == nil && len(found.RepoTags) > 0 {
		return fault.New(fault.Conflict, "remove", "image "+name, "it has a name")
	}
	return err
}
