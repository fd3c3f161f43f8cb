package csitest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// removeTree unmounts what is mounted beneath dir, frees the loop devices on images beneath it, and deletes the rest.
func removeTree(dir string) error {
	for try := 0; ; try++ {
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
		if err != nil {
			return err
		}
		if len(mounts) == 0 {
			break
		}
		if try == 5 {
			return fmt.Errorf("%s is still mounted", mounts[0].Mountpoint)
		}
		slices.Reverse(mounts)
		for _, m := range mounts {
			if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("unmount %s: %w", m.Mountpoint, err)
			}
		}
	}
	if err := freeLoops(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func freeLoops(dir string) error {
	all, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, f := range all {
		b, err := os.ReadFile(f)
		if err != nil || !strings.HasPrefix(string(b), dir+"/") {
			continue // gone meanwhile, or another's
		}
		dev, err := os.Open("/dev/" + filepath.Base(filepath.Dir(filepath.Dir(f))))
		if err != nil {
			return err
		}
		if err := errors.Join(unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0), dev.Close()); err != nil {
			return err
		}
	}
	return nil
}
