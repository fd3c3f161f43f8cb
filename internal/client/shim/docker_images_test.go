package shim_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/port/driver/docker/images"
	"berth/internal/testkit/await"
	"berth/internal/testkit/certificates"
	"berth/internal/testkit/dockerd"
	"berth/internal/testkit/freeport"
)

// registry is a private one on the loopback, with TLS and a user "berth" whose password is "open-sesame".
func registry(t testing.TB) string {
	t.Helper()
	dockerd.Needed(t)
	dir := t.TempDir()
	addr := fmt.Sprintf("127.0.0.1:%d", freeport.Pick(t))
	pair := certificates.NewOffice(t, dir, "registry").Issue(t, "registry", time.Hour, "127.0.0.1")
	users := filepath.Join(dir, "users")
	config := filepath.Join(dir, "config.yml")
	for path, text := range map[string]string{
		users: "berth:$2y$05$abcdefghijklmnopqrstuutXu9KzOt.1yBoZUeFWoT/914/JfszCO\n",
		config: fmt.Sprintf("version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: %s\nhttp:\n  addr: %s\n  tls:\n"+
			"    certificate: %s\n    key: %s\nauth:\n  htpasswd:\n    realm: test\n    path: %s\n", dir, addr,
			pair.Cert, pair.Key, users),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("docker-registry", "serve", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	})
	for range 600 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close() // it listens
			return addr
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the registry does not listen")
	return ""
}

// raw makes a call of the daemon that the driver does not make.
func raw(t testing.TB, d *dockerd.Daemon, method, path, auth string) []byte {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.Socket())
	}}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://docker"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("X-Registry-Auth", base64.URLEncoding.EncodeToString([]byte(auth)))
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 || bytes.Contains(text, []byte(`"error"`)) {
		t.Fatalf("%s %s: %s %s %v", method, path, res.Status, text, err)
	}
	return text
}

// Given a private registry with TLS and passwords, when a task's image is only there, then it comes with the
// credentials of the job, of the agent's file and of its program, events say so, and without or with wrong ones the
// task is refused with the registry's word; and the image goes again when nothing has used it for a while, and one
// that was there before does not.
func TestImagesComeFromPrivateRegistriesAndGo(t *testing.T) {
	p := newDocked(t, dockerd.New(t), "docker-images-"+slice)
	addr := registry(t)
	name := addr + "/team/busybox"
	raw(t, p.daemon, "POST", "/images/"+dockerd.Image+"/tag?repo="+name+"&tag=1", "")
	raw(t, p.daemon, "POST", "/images/"+name+"/push?tag=1", `{"username":"berth","password":"open-sesame"}`)
	raw(t, p.daemon, "DELETE", "/images/"+name+":1", "")

	file := filepath.Join(p.dir, "config.json")
	text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, addr,
		base64.StdEncoding.EncodeToString([]byte("berth:open-sesame")))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", p.dir+":"+os.Getenv("PATH"))
	helper := "#!/bin/sh\ntest \"$1\" = get && grep -q '" + addr +
		"' && echo '{\"Username\": \"berth\", \"Secret\": \"open-sesame\"}'\n"
	if err := os.WriteFile(filepath.Join(p.dir, "docker-credential-test"), []byte(helper), 0o700); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []string
	agent := func(c images.Config) *docker.Driver {
		d := p.agent(func(cfg *docker.Config) {
			cfg.Images, cfg.Images.Delay = c, 100*time.Millisecond
			cfg.Images.Dir = filepath.Join(p.dir, "state")
			cfg.Events = func(e docker.Event) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, e.Message)
			}
		})
		p.says(driver.Healthy)
		return d
	}
	wanted := func(auth ...any) *driver.TaskConfig {
		cfg := p.config("web")
		cfg.Config["image"] = name + ":1"
		if len(auth) > 0 {
			cfg.Config["auth"] = auth
		}
		return cfg
	}
	right := map[string]any{"username": "berth", "password": "open-sesame"}
	wrong := map[string]any{"username": "berth", "password": "secret-word"}
	d := agent(images.Config{})
	p.over(p.start(d, p.config("own"))) // of an image that was there
	for _, cfg := range []*driver.TaskConfig{wanted(), wanted(wrong)} {
		if _, err := d.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), name) ||
			strings.Contains(err.Error(), "secret-word") {
			t.Errorf("without credentials: %v (%v)", err, fault.KindOf(err))
		}
	}
	for what, c := range map[string]struct {
		agent images.Config
		task  *driver.TaskConfig
	}{
		"the job":     {images.Config{}, wanted(right)},
		"the file":    {images.Config{AuthFile: file}, wanted()},
		"the program": {images.Config{AuthHelper: "test"}, wanted()},
	} {
		d := agent(c.agent)
		task, err := d.Start(t.Context(), c.task)
		if err != nil {
			t.Errorf("by %s: %v", what, err)
			continue
		}
		p.over(task)
		for range 200 {
			if _, err = p.daemon.Image(t.Context(), name+":1"); fault.Has(err, fault.NotFound) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if !fault.Has(err, fault.NotFound) {
			t.Errorf("by %s: the image is still there: %v", what, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(said, "Downloading image "+name+":1") {
		t.Errorf("the events are %q", said)
	}
	if _, err := p.daemon.Image(t.Context(), dockerd.Image); err != nil {
		t.Errorf("an image that nobody fetched: %v", err)
	}
}

// Given an image that is nowhere but in an archive in a task's directory, then it is loaded from there; and no link
// leads out of that directory.
func TestImagesAreLoadedFromArchives(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-load-"+slice)
	raw(t, p.daemon, "POST", "/images/"+dockerd.Image+"/tag?repo=packed&tag=1", "")
	archive := raw(t, p.daemon, "GET", "/images/packed:1/get", "")
	raw(t, p.daemon, "DELETE", "/images/packed:1", "")
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.config("web")
	cfg.Config["image"], cfg.Config["load"] = "packed:1", "image.tar"
	outside := filepath.Join(p.dir, "image.tar")
	if err := os.WriteFile(outside, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(cfg.TaskDir, "local/image.tar")
	if err := os.Symlink(outside, inside); err != nil {
		t.Fatal(err)
	}
	_, err := d.Start(t.Context(), cfg)
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "config.load") {
		t.Errorf("an archive elsewhere: %v", err)
	}
	if err := os.Remove(inside); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inside, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	p.over(p.start(d, cfg))
}

// Given an archive in a task's directory whose image is also named as one that other jobs run, when it is loaded, then
// the task runs it, and the names of the daemon lead where they led; the image stays where somebody has named it; and a
// pipe in the place of the archive holds up nobody.
func TestAnArchiveNamesNoImageOfOthers(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-names-"+slice)
	for _, name := range []string{"packed", "victim"} {
		raw(t, p.daemon, "POST", "/images/"+dockerd.Image+"/tag?repo="+name+"&tag=1", "")
	}
	archive := raw(t, p.daemon, "GET", "/images/get?names=packed:1&names=victim:1", "")
	raw(t, p.daemon, "DELETE", "/images/packed:1", "")
	content, err := dockerd.Archive(dockerd.File{Name: "a", Text: "a", Mode: 0o644})
	if err == nil {
		err = p.daemon.Import(t.Context(), "victim", "1", bytes.NewReader(content))
	}
	if err != nil {
		t.Fatal(err)
	}
	before, err := p.daemon.Image(t.Context(), "victim:1")
	if err != nil {
		t.Fatal(err)
	}
	d := p.agent(func(c *docker.Config) {
		c.Images, c.Images.Delay = images.Config{}, 100*time.Millisecond
		c.Images.Dir = filepath.Join(p.dir, "state")
	})
	p.says(driver.Healthy)
	cfg := p.config("web")
	cfg.Config["image"], cfg.Config["load"] = "packed:1", "image.tar"
	cfg.Config["force_pull"] = true
	inside := filepath.Join(cfg.TaskDir, "local/image.tar")
	if err := unix.Mkfifo(inside, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(short(t), cfg); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "no file") {
		t.Errorf("a pipe: %v", err)
	}
	if err := errors.Join(os.Remove(inside), os.WriteFile(inside, archive, 0o600)); err != nil {
		t.Fatal(err)
	}
	p.over(p.start(d, cfg))
	if after, err := p.daemon.Image(t.Context(), "victim:1"); err != nil || after.ID != before.ID {
		t.Errorf("the name of others leads to %+v, %v, and led to %s", after, err, before.ID)
	}
	if _, err := p.daemon.Image(t.Context(), "packed:1"); !fault.Has(err, fault.NotFound) {
		t.Errorf("the image has got a name: %v", err)
	}
	await.Eventually(t, "the image to be nobody's", func() bool {
		text, err := os.ReadFile(filepath.Join(p.dir, "state", "images.json"))
		return err == nil && string(text) == "{}"
	})
	if _, err := p.daemon.Image(t.Context(), dockerd.Image); err != nil {
		t.Errorf("it went with the name that somebody had given it: %v", err)
	}
}

// Given containers of allocs that have ended, of ones that live, of ones that no record knows, and of another node,
// when the agent starts, then it removes the first and no other.
func TestTheSweepRemovesWhatHasEndedHere(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-sweep-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	ended, unknown := p.config("ended"), p.config("unknown")
	first, second := p.start(d, ended), p.start(d, unknown)
	other := p.agent(func(c *docker.Config) {
		c.Node = nil // another agent's containers carry another name
	})
	p.says(driver.Healthy)
	third := p.start(other, p.config("other"))
	p.agent(func(c *docker.Config) {
		c.Ended = func(id ids.Alloc) bool { return id != unknown.Alloc }
	})
	p.says(driver.Healthy)
	for range 400 {
		if len(p.daemon.Containers()) == 2 {
			break
		}
		time.Sleep(25 * time.Millisecond)
	}
	names := strings.Join(p.daemon.Containers(), " ")
	if !strings.Contains(names, "unknown-") || !strings.Contains(names, "other-") || strings.Contains(names, "ended-") {
		t.Errorf("there are %s", names)
	}
	for _, task := range []driver.Task{first, second, third} {
		if err := task.Stop(t.Context(), "", 0); err != nil {
			t.Error(err)
		}
	}
}
