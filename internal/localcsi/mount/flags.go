package mount

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/pattern"
)

// Options are mount options in the kernel's form.
type Options struct {
	Bits uintptr
	Data string
}

// ReadOnly reports whether the options make the whole file system read-only.
func (o Options) ReadOnly() bool { return o.Bits&unix.MS_RDONLY != 0 }

type flag struct{ set, clear uintptr }

// plain are the options that become bits. What is missing is missing on purpose: bind, remount, move and loop would
// turn a mount into something else, suid and dev would let a volume bring privileges to the host.
var plain = map[string]flag{
	"defaults":    {},
	"ro":          {set: unix.MS_RDONLY},
	"rw":          {clear: unix.MS_RDONLY},
	"noatime":     {set: unix.MS_NOATIME},
	"nodiratime":  {set: unix.MS_NODIRATIME},
	"relatime":    {set: unix.MS_RELATIME},
	"strictatime": {set: unix.MS_STRICTATIME},
	"lazytime":    {set: unix.MS_LAZYTIME},
	"sync":        {set: unix.MS_SYNCHRONOUS},
	"dirsync":     {set: unix.MS_DIRSYNC},
	"noexec":      {set: unix.MS_NOEXEC},
	"nosuid":      {set: unix.MS_NOSUID},
	"nodev":       {set: unix.MS_NODEV},
}

// passed are the options that a file system reads itself, per file system.
var passed = map[string]func() *regexp.Regexp{
	"ext4": pattern.Of(`^(?:(?:no)?discard|data=(?:ordered|journal|writeback)|commit=[0-9]{1,5}|` +
		`errors=(?:remount-ro|continue)|(?:no)?delalloc|noinit_itable)$`),
	"xfs": pattern.Of(`^(?:(?:no)?discard|inode64|logbufs=[2-8]|logbsize=[0-9]{1,4}k?|allocsize=[0-9]{1,4}[km]?|` +
		`largeio|swalloc)$`),
}

// ParseFlags turns mount flags from outside into options, refusing everything that is not known to be harmless. An
// error names the flag by its place and its key only: flags may be sensitive.
func ParseFlags(fsType string, flags []string) (Options, error) {
	var o Options
	var data []string
	total := 0
	for i, f := range flags {
		total += len(f)
		if total > 4096 {
			return Options{}, fmt.Errorf("the mount flags have more than 4096 bytes")
		}
		if p, ok := plain[f]; ok {
			o.Bits = o.Bits&^p.clear | p.set
			continue
		}
		if own := passed[fsType]; own != nil && own().MatchString(f) {
			data = append(data, f)
			continue
		}
		key, _, _ := strings.Cut(f, "=")
		return Options{},
			fmt.Errorf("mount flag %d (%.32q) is not allowed on %s; allowed are %s and what %s itself reads: "+
				"discard, data, commit, errors, logbsize, allocsize and the like",
				i+1, key, fsType, strings.Join(plainNames(), ", "), fsType)
	}
	o.Data = strings.Join(data, ",")
	return o, nil
}

func plainNames() []string {
	names := make([]string, 0, len(plain))
	for n := range plain {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
