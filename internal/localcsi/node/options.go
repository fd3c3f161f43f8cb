package node

import (
	"strings"

	"berth/internal/localcsi/image"
	"berth/internal/localcsi/mount"
)

// ours adds the options without which a file system would not keep what it promises here.
func ours(fs string, opt mount.Options) mount.Options {
	switch {
	case fs == image.XFS:
		opt.Data = join(opt.Data, "nouuid") // a clone has the uuid of its source, and both may be mounted here
	case fs == image.Ext4 && !opt.ReadOnly() && (!strings.Contains(opt.Data, "data=") ||
		strings.Contains(opt.Data, "data=ordered")):
		// When the image cannot grow because its disk is full, ext4 forgets that data was not written, and syncs of
		// the same file that succeed after that may be lost. So the first such failure ends the file system: what was
		// synced is found when it is mounted anew.
		opt.Data = join(opt.Data, "data_err=abort")
	}
	if fs == image.Ext4 && !strings.Contains(opt.Data, "errors=") {
		// The superblock is the workload's to write where the volume may be used as a device, and could have the node
		// panic.
		opt.Data = join(opt.Data, "errors=remount-ro")
	}
	return opt
}

func join(options, more string) string {
	if options == "" {
		return more
	}
	return options + "," + more
}
