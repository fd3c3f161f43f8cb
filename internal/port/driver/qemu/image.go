package qemu

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
)

// image is where the node has an image, if it is to be mounted at the same path in the task; nil: it lies in what the
// task has anyway. Links in there lead nowhere else: the task's root is its own. Of the node's own only what the agent
// names is shown.
func (d *Driver) image(cfg *driver.TaskConfig, o taskconfig.Options) (*driver.Mount, error) {
	path := o.Text("image_path")
	at := filepath.Clean("/" + path) // a relative one begins in the task's root
	if filepath.IsAbs(path) && d.allowed(at) {
		m, err := d.ofNode(path, at)
		if err == nil && m.ReadOnly && !forgets(o.Texts("args")) {
			return nil, onlyRead(path)
		}
		return m, err
	}
	own := []string{exec.AllocPath, exec.LocalPath, exec.SecretsPath, exec.TmpPath}
	for _, m := range cfg.Mounts {
		own = append(own, m.Target)
	}
	for _, dir := range own {
		if within(dir, at) {
			return nil, there(cfg, path, at)
		}
	}
	return nil, elsewhere(path)
}

// there refuses an image that is not where the task would look for it, in words that qemu, which knows nothing of jobs,
// does not have. What is mounted, and where links lead in the task's root, is only known in there.
func there(cfg *driver.TaskConfig, path, at string) error {
	dir, inner := cfg.TaskDir, at
	if within(exec.AllocPath, at) {
		dir, inner = cfg.AllocDir, strings.TrimPrefix(at, exec.AllocPath)
	}
	for _, m := range cfg.Mounts {
		if within(m.Target, at) {
			return nil
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", "directory "+dir)
	}
	_, err = root.Stat("." + inner)
	closed := root.Close()
	if errors.Is(err, fs.ErrNotExist) {
		return fault.WithHint(fault.New(fault.NotFound, "", "config.image_path",
			strconv.Quote(path)+" is not in the task's directories"),
			"have an artifact block fetch it, or write where the one that there is fetches it to")
	}
	return closed
}

func elsewhere(path string) error {
	return fault.WithHint(fault.New(fault.Denied, "", "config.image_path",
		strconv.Quote(path)+" is neither in the task's own directories nor where the agent allows images"),
		"fetch it by an artifact and write local/…, or name its directory in image_paths of the agent's plugin "+
			strconv.Quote(Name)+" block")
}

// ofNode is an image that lies, links followed, where the agent allows it.
func (d *Driver) ofNode(path, at string) (*driver.Mount, error) {
	real, err := filepath.EvalSymlinks(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "", "config.image_path", strconv.Quote(path)+" is not on this node")
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Unsupported, "find", "config.image_path")
	}
	if !d.allowed(real) {
		return nil, elsewhere(path)
	}
	return &driver.Mount{Source: real, Target: at, ReadOnly: !among(d.cfg.Writable, real)}, nil
}

// forgets reports whether the options have qemu keep what the machine writes to itself, and forget it with its end.
func forgets(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "-snapshot" || a == "--snapshot" })
}

// onlyRead refuses a machine that would write to an image that it shares with others, in words that qemu does not have.
func onlyRead(path string) error {
	return fault.WithHint(fault.New(fault.Denied, "", "config.image_path",
		"machines may only read "+strconv.Quote(path)+", for others boot it as well"),
		`write args = ["-snapshot"] where what the machine writes can be forgotten with its end; fetch an image of its `+
			"own by an artifact; or name this one in writable_image_paths of the agent's plugin "+strconv.Quote(Name)+
			" block")
}

// allowed reports whether the agent's configuration lets images be taken from path.
func (d *Driver) allowed(path string) bool {
	return among(d.cfg.Images, path) || among(d.cfg.Writable, path)
}

// among reports whether path is one of dirs or in one of them, links of those followed.
func among(dirs []string, path string) bool {
	for _, dir := range dirs {
		if within(dir, path) {
			return true
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil && within(real, path) { // otherwise nothing is there
			return true
		}
	}
	return false
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// escaped is a value in a list of options of qemu, in which a comma begins the next one.
func escaped(value string) string { return strings.ReplaceAll(value, ",", ",,") }
