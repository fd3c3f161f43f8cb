package spec

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/container"
	"berth/internal/model/job"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
)

// Paths of a task's own directories in its container.
const (
	allocPath   = "/alloc"
	localPath   = "/local"
	secretsPath = "/secrets"
)

// mounts are the task's own directories, its volumes, and what its job mounts itself.
func (p *Policy) mounts(cfg *driver.TaskConfig, o Options) ([]dockerapi.Mount, error) {
	out := []dockerapi.Mount{
		Bind(cfg.AllocDir, allocPath, false, ""),
		Bind(filepath.Join(cfg.TaskDir, "local"), localPath, false, ""),
		Bind(filepath.Join(cfg.TaskDir, "secrets"), secretsPath, false, ""),
	}
	// The shim writes there as root: a task that could put links into it would choose what it writes.
	if rel, err := filepath.Rel(cfg.AllocDir, cfg.Logs.Dir); err == nil && cfg.Logs.Dir != "" &&
		filepath.IsLocal(rel) && rel != "." {
		out = append(out, Bind(cfg.Logs.Dir, filepath.Join(allocPath, rel), true, ""))
	}
	if cfg.Network != nil {
		for _, f := range cfg.Network.Files {
			out = append(out, Bind(f.Source, f.Target, f.ReadOnly, ""))
		}
	}
	for _, m := range cfg.Mounts {
		propagation, ok := map[string]string{"": "", "private": "", "host-to-task": "rslave",
			"bidirectional": "rshared"}[m.Propagation]
		if !ok {
			return nil, fault.WithHint(fault.New(fault.Invalid, "", "mount "+strconv.Quote(m.Target),
				"propagation "+strconv.Quote(m.Propagation)+" is not known"),
				"use private, host-to-task or bidirectional")
		}
		out = append(out, Bind(m.Source, m.Target, m.ReadOnly, propagation))
	}
	if cfg.CSIPluginNode {
		out = append(out, Bind("/dev", "/dev", false, ""))
	}
	own, err := p.ownMounts(cfg, o)
	if err != nil {
		return nil, err
	}
	own = keepLogs(cfg, own)
	for i, m := range own {
		target := filepath.Clean(m.Target)
		if !filepath.IsAbs(target) || job.Unmountable(target) {
			return nil, fault.WithHint(fault.New(fault.Invalid, "", "mount target "+strconv.Quote(m.Target),
				"nothing can be mounted there in a task"), "choose an absolute path other than /, /proc and /sys")
		}
		own[i].Target = target
		// What a job mounts itself is in the place of what it would have had there.
		out = slices.DeleteFunc(out, func(o dockerapi.Mount) bool { return filepath.Clean(o.Target) == target })
	}
	return append(out, own...), nil
}

// Bind is a mount of a path of the node.
func Bind(source, target string, readOnly bool, propagation string) dockerapi.Mount {
	m := dockerapi.Mount{Type: "bind", Source: source, Target: filepath.Clean(target), ReadOnly: readOnly}
	if propagation != "" {
		m.BindOptions = &dockerapi.BindOptions{Propagation: propagation}
	}
	return m
}

// ownMounts are those of the task's config block.
func (p *Policy) ownMounts(cfg *driver.TaskConfig, o Options) (out []dockerapi.Mount, err error) {
	for _, text := range o.Texts("volumes") {
		m, err := p.volume(cfg, o, text)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	for _, b := range container.Mounts(o) {
		if err := fits(b); err != nil {
			return nil, err
		}
		m := dockerapi.Mount{
			Type:     b.Text("type"),
			Source:   b.Text("source"),
			Target:   b.Text("target"),
			ReadOnly: b.Yes("readonly"),
		}
		switch m.Type {
		case "bind":
			if m.Source, err = p.source(cfg, "config.mount", m.Source); err != nil {
				return nil, err
			}
			if how := b.One("bind_options").Text("propagation"); how != "" {
				m.BindOptions = &dockerapi.BindOptions{Propagation: how}
			}
		case "tmpfs":
			if m.Source != "" {
				return nil, fault.WithHint(fault.New(fault.Invalid, "", "config.mount", "a tmpfs has no source"),
					"leave it out")
			}
			t := b.One("tmpfs_options")
			m.TmpfsOptions = &dockerapi.TmpfsOptions{SizeBytes: t.Number("size"), Mode: t.Number("mode")}
		default:
			if err := p.named(&m, b.One("volume_options")); err != nil {
				return nil, err
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// fits refuses options of a mount that are for another type.
func fits(b Options) error {
	kind := cmp.Or(b.Text("type"), "volume")
	for _, other := range []string{"bind", "tmpfs", "volume"} {
		if name := other + "_options"; other != kind && len(b.Blocks(name)) > 0 {
			return fault.WithHint(fault.New(fault.Invalid, "", "config.mount."+name,
				"it says nothing of a mount of type "+strconv.Quote(kind)), "leave it out, or write type = "+
				strconv.Quote(other))
		}
	}
	return nil
}

// named makes a mount one of a volume of the daemon's.
func (p *Policy) named(m *dockerapi.Mount, v Options) error {
	if err := p.needVolumes("config.mount", "volumes of the daemon"); err != nil {
		return err
	}
	m.Type = "volume"
	if strings.ContainsRune(m.Source, '/') {
		return fault.WithHint(fault.New(fault.Invalid, "", "config.mount",
			strconv.Quote(m.Source)+" is a path, and not the name of a volume"), `write type = "bind"`)
	}
	m.VolumeOptions = &dockerapi.VolumeOptions{NoCopy: v.Yes("no_copy"), Labels: v.Pairs("labels")}
	if c := v.One("driver_config"); len(c) > 0 {
		m.VolumeOptions.DriverConfig = &dockerapi.DriverConfig{Name: c.Text("name"), Options: c.Pairs("options")}
	}
	return nil
}

// volume reads "source:target" or "source:target:options".
func (p *Policy) volume(cfg *driver.TaskConfig, o Options, text string) (m dockerapi.Mount, err error) {
	parts := strings.Split(text, ":")
	bad := func(why string) (dockerapi.Mount, error) {
		return m, fault.WithHint(fault.New(fault.Invalid, "", "config.volumes", strconv.Quote(text)+" "+why),
			`write "path:/path/in/the/task", with :ro behind for what is only read`)
	}
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return bad("is no volume")
	}
	m = Bind(parts[0], parts[1], false, "")
	if len(parts) == 3 {
		for opt := range strings.SplitSeq(parts[2], ",") {
			switch opt {
			case "ro":
				m.ReadOnly = true
			case "rw", "z", "Z":
			default:
				if slices.Contains(container.Propagations, opt) {
					m.BindOptions = &dockerapi.BindOptions{Propagation: opt}
					continue
				}
				return bad("has the option " + strconv.Quote(opt) + ", which is not known")
			}
		}
	}
	if o.Text("volume_driver") != "" || !strings.ContainsRune(parts[0], '/') && p.AllowVolumes &&
		!isThere(filepath.Join(cfg.TaskDir, parts[0])) {
		m.Source = parts[0]
		return m, p.named(&m, Options{})
	}
	m.Source, err = p.source(cfg, "config.volumes", parts[0])
	return m, err
}

func isThere(path string) bool { _, err := os.Lstat(path); return err == nil }

// source is where on the node a mount comes from. A relative one is in the task's directory or the alloc's shared one,
// and no link leads out of them; others need the agent's word. The daemon is given the path without its links, which a
// task that runs could lead elsewhere.
func (p *Policy) source(cfg *driver.TaskConfig, what, path string) (string, error) {
	full := path
	if !filepath.IsAbs(path) {
		full = filepath.Join(cfg.TaskDir, path)
	}
	full = filepath.Clean(full)
	what += " " + strconv.Quote(path)
	if within(cfg.TaskDir, full) && !isThere(full) {
		if err := makeWithin(cfg.TaskDir, full); err != nil {
			return "", fault.Wrap(err, fault.Invalid, "make the directory of", what)
		}
	}
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		return "", fault.Wrap(err, fault.Invalid, "find", what)
	}
	for _, dir := range []string{cfg.TaskDir, cfg.AllocDir} {
		root, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return "", fault.Wrap(err, fault.Internal, "find", dir)
		}
		if dir == cfg.TaskDir && real == root {
			const whole = "the directory that holds all of the task's, which could then move them away,"
			return real, fault.Note(p.needVolumes(what, whole), "", "")
		}
		if within(root, real) {
			return real, nil
		}
	}
	return real, p.needVolumes(what, "directories of the node")
}

// keepLogs has a task only read what is kept of its output, also where it mounts it at another place: the shim writes
// there as root.
func keepLogs(cfg *driver.TaskConfig, own []dockerapi.Mount) []dockerapi.Mount {
	logs, err := filepath.EvalSymlinks(cfg.Logs.Dir)
	if cfg.Logs.Dir == "" || err != nil {
		return own // it is nowhere
	}
	var more []dockerapi.Mount
	for i, m := range own {
		if m.Type != "bind" {
			continue
		}
		if within(logs, m.Source) {
			own[i].ReadOnly = true
			continue
		}
		rel, err := filepath.Rel(m.Source, logs)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		at := filepath.Join(m.Target, rel)
		if !slices.ContainsFunc(own, func(o dockerapi.Mount) bool { return filepath.Clean(o.Target) == at }) {
			more = append(more, Bind(cfg.Logs.Dir, at, true, ""))
		}
	}
	return append(own, more...)
}

// makeWithin makes a directory, and follows no link on its way.
func makeWithin(root, path string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was used
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	return r.MkdirAll(rel, 0o777)
}

func within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}
