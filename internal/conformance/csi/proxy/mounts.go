package proxy

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// remember keeps the paths at which the plugin may have mounted something.
func (x *passage) remember() {
	p := x.plugin.p
	p.mu.Lock()
	defer p.mu.Unlock()
	switch x.begin.RPC {
	case "NodeStageVolume":
		p.paths[x.begin.Staging] = true
	case "NodePublishVolume":
		p.paths[x.begin.Target] = true
	case "NodeUnstageVolume":
		delete(p.paths, x.begin.Staging)
	case "NodeUnpublishVolume":
		delete(p.paths, x.begin.Target)
	}
}

// loseMounts unmounts everything at the remembered paths, lazily, and marks it in the record.
func (l *pluginRun) loseMounts() error {
	l.p.mu.Lock()
	paths := slices.Sorted(maps.Keys(l.p.paths))
	l.p.mu.Unlock()
	slices.Reverse(paths)
	for _, path := range paths {
		if err := unmountAll(path); err != nil {
			return err
		}
	}
	return l.p.rec.write(Entry{
		Kind:   Marked,
		Mark:   MountsLost,
		Proxy:  l.p.cfg.Name,
		Run:    l.number,
		Plugin: l.p.cfg.Plugin,
		Node:   l.node,
	})
}

// unmountAll takes every mount off a path. A path that is gone is no error.
func unmountAll(path string) error {
	for {
		mounted, err := mountinfo.Mounted(path)
		if errors.Is(err, os.ErrNotExist) || err == nil && !mounted {
			return nil
		}
		if err != nil && !errors.Is(err, unix.ENOTCONN) {
			return fmt.Errorf("look for a mount at %s: %w", path, err)
		}
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

// mountTmpfs publishes on behalf of a plugin that only says it has, and takes the directory away at the end.
func (x *passage) mountTmpfs() error {
	switch r := x.request.(type) {
	case *pb.NodePublishVolumeRequest:
		if r.GetVolumeCapability().GetBlock() != nil {
			return nil
		}
		if err := os.Mkdir(r.GetTargetPath(), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if mounted, err := mountinfo.Mounted(r.GetTargetPath()); err != nil || mounted {
			return err
		}
		var flags uintptr
		if r.GetReadonly() {
			flags = unix.MS_RDONLY
		}
		if err := unix.Mount("csi-proxy", r.GetTargetPath(), "tmpfs", flags, "size=16m"); err != nil {
			return fmt.Errorf("mount a tmpfs at %s: %w", r.GetTargetPath(), err)
		}
	case *pb.NodeUnpublishVolumeRequest:
		if err := os.Remove(r.GetTargetPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
