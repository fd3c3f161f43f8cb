package shim_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/port/driver/docker/images"
	"berth/internal/testkit/await"
	"berth/internal/testkit/dockerd"
	"berth/internal/testkit/dockerd/between"
)

const inTeam = `{"username":"berth","password":"open-sesame"}`

// Given images of a registry, when their containers start, fail to start, move to a newer image of the same name, and
// lose their image to somebody who cleans up, then an image stays while it is needed, goes when nothing uses it, and
// one that was there before is nobody's to remove.
func TestAnImageStaysWhileItIsNeededAndNoLonger(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-collect-"+slice)
	name := registry(t) + "/team/busybox"
	push := func(tag string) {
		raw(t, p.daemon, "POST", "/images/"+name+"/push?tag="+tag, inTeam)
	}
	seed, err := p.daemon.Create(t.Context(), "seed", &dockerapi.Create{Image: dockerd.Image})
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"1", "2"} {
		raw(t, p.daemon, "POST", "/commit?container="+seed+"&repo="+name+"&tag="+tag+"&comment=image-"+tag, "")
		push(tag)
		raw(t, p.daemon, "DELETE", "/images/"+name+":"+tag, "")
	}
	if err := p.daemon.Remove(t.Context(), seed); err != nil {
		t.Fatal(err)
	}
	var atCreate atomic.Pointer[func()]
	tap := between.New(t, p.daemon.Socket(), func(c between.Call) {
		if f := atCreate.Load(); f != nil && c.Before && strings.HasSuffix(c.Path, "/containers/create") {
			(*f)()
		}
	})
	state := filepath.Join(p.dir, "state")
	d := p.agent(func(c *docker.Config) {
		c.Socket = tap.Socket()
		c.Images = images.Config{Delay: 4 * time.Second, Dir: state}
	})
	p.says(driver.Healthy)
	wanted := func(tag string) *driver.TaskConfig {
		cfg := p.config("web")
		cfg.Config["image"] = name + ":" + tag
		cfg.Config["auth"] = []any{map[string]any{"username": "berth", "password": "open-sesame"}}
		return cfg
	}
	there := func(ref string) bool {
		_, err := p.daemon.Image(t.Context(), ref)
		if err != nil && !fault.Has(err, fault.NotFound) {
			t.Error(err)
		}
		return err == nil
	}
	gone := func(t *testing.T, ref string) {
		t.Helper()
		await.Eventually(t, "image "+ref+" to be gone", func() bool { return !there(ref) })
	}

	t.Run("it is due while its container is made", func(t *testing.T) {
		p.over(p.start(d, wanted("1")))
		p.over(p.start(d, wanted("2")))
		late := func() { gone(t, name+":2") } // which is due after the other
		atCreate.Store(&late)
		task := p.start(d, wanted("1"))
		atCreate.Store(nil)
		p.over(task)
		gone(t, name+":1")
	})
	t.Run("its container cannot start", func(t *testing.T) {
		cfg := wanted("1")
		cfg.Config["command"] = "/no/such"
		if _, err := d.Start(t.Context(), cfg); !fault.Has(err, fault.Invalid) {
			t.Errorf("without its command: %v", err)
		}
		gone(t, name+":1")
	})
	t.Run("somebody cleans up", func(t *testing.T) {
		clean := func() {
			atCreate.Store(nil)
			raw(t, p.daemon, "DELETE", "/images/"+name+":1", "")
		}
		atCreate.Store(&clean)
		p.over(p.start(d, wanted("1")))
		gone(t, name+":1")
	})
	t.Run("its name moves", func(t *testing.T) {
		var ids []string
		for _, text := range []string{"a", "b"} {
			layer, err := dockerd.Archive(dockerd.File{Name: "tmp/" + text, Text: text, Mode: 0o644})
			if err == nil {
				err = p.daemon.Import(t.Context(), name, "latest", bytes.NewReader(layer))
			}
			if err != nil {
				t.Fatal(err)
			}
			push("latest")
			raw(t, p.daemon, "DELETE", "/images/"+name+":latest", "")
			cfg := wanted("latest")
			cfg.Config["command"] = "/no/such"
			first := func() {
				found, err := p.daemon.Image(t.Context(), name+":latest")
				if err != nil {
					t.Error(err)
					return
				}
				ids = append(ids, found.ID)
			}
			atCreate.Store(&first)
			if _, err := d.Start(t.Context(), cfg); !fault.Has(err, fault.Invalid) {
				t.Errorf("without its command: %v", err)
			}
			atCreate.Store(nil)
		}
		for _, id := range ids {
			gone(t, id)
		}
	})
	t.Run("it was there before", func(t *testing.T) {
		raw(t, p.daemon, "POST", "/images/create?fromImage="+name+"&tag=1", inTeam)
		cfg := wanted("1")
		cfg.Config["force_pull"] = true
		p.over(p.start(d, cfg))
		text, err := os.ReadFile(filepath.Join(state, "images.json"))
		if err != nil || string(text) != "{}" {
			t.Errorf("what was fetched is %s, %v", text, err)
		}
	})
}
