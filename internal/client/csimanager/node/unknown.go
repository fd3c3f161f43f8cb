package node

import (
	"os"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// lookForUnknown compares the mounts in the plugins' directories with the entries: what no entry knows is named by a
// record that cannot be read, else it is unknown. The known paths are read before the table and after it: what is
// mounted or unmounted meanwhile is known by one of them.
func (k *Keeper) lookForUnknown() error {
	if k.cfg.DataDir == "" {
		return nil
	}
	known := k.paths()
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	for path := range k.paths() {
		known[path] = true
	}
	found := evidence.UnknownMounts(k.cfg.DataDir, known, table, k.unreadable())
	if found, err = k.forgotten().Without(found, table); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.damaged {
		found = k.name(&volume.Claim{Plugin: key.Plugin, ExternalID: key.ExternalID}, found)
	}
	if slices.Equal(found, k.unknown) {
		return nil
	}
	for _, u := range found {
		if !slices.Contains(k.unknown, u) {
			k.cfg.Log.Error("something is mounted where only storage plugins mount, and nothing says whose it is; "+
				"volumes of the plugin are not released before it is gone", logkey.Path, u.Path, "type", u.FSType)
		}
	}
	k.unknown, k.due = found, true
	k.changed.Notify()
	return nil
}

// unreadable lists the id files that cannot be read.
func (k *Keeper) unreadable() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = slices.DeleteFunc(k.broken, func(name string) bool {
		_, err := os.Lstat(name)
		return os.IsNotExist(err)
	})
	return slices.Clone(k.broken)
}

// nameUnknown compares what is unknown with the claims of this node that the servers have sent: what is mounted at the
// path of one is its volume, and is undone in the ordinary way.
func (k *Keeper) nameUnknown(claims []volume.Claim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.unknown)
	left := k.unknown
	for i := range claims {
		left = k.name(&claims[i], left)
	}
	if k.unknown = left; len(left) != before {
		k.due = true
		k.changed.Notify()
	}
}

// name adds the entry of a claim if something unknown is mounted at its paths, and returns what stays unknown. The
// caller holds the lock.
func (k *Keeper) name(c *volume.Claim, unknown []volume.UnknownMount) (left []volume.UnknownMount) {
	f := evidence.Named(k.cfg.DataDir, c, unknown)
	if f == nil {
		return unknown
	}
	paths := []string{f.Staging.HostPath}
	if f.Pub != nil {
		paths = append(paths, f.Pub.HostPath)
	}
	k.cfg.Log.Warn("a mount that the journal lost is named by its path", logkey.Plugin, c.Plugin, logkey.Volume,
		c.ExternalID, logkey.Alloc, f.Alloc)
	k.adopt(f)
	k.loop.Mark(f.Key)
	return slices.DeleteFunc(slices.Clone(unknown), func(u volume.UnknownMount) bool {
		return slices.ContainsFunc(paths, func(path string) bool {
			return u.Path == path || strings.HasPrefix(u.Path, path+"/")
		})
	})
}

// unknownTarget reports whether a target is mounted in a plugin's directory that nobody can name.
func (k *Keeper) unknownTarget(id ids.Plugin) bool {
	return slices.ContainsFunc(k.unknown, func(u volume.UnknownMount) bool {
		return u.Of(id) && strings.Contains(u.Path, "/"+u.Dir+"/p/")
	})
}

func (k *Keeper) forgotten() evidence.Forgotten {
	return evidence.Forgotten{Store: k.cfg.Store, Boot: k.cfg.Boot, Log: k.cfg.Log}
}

// ForgetMount takes the word of a person that an unknown mount is none of a volume that the cluster knows: it holds up
// no release any more. Nothing is unmounted; an id file that cannot be read is removed.
func (k *Keeper) ForgetMount(path, reason, by string) error {
	k.mu.Lock()
	at := slices.IndexFunc(k.unknown, func(u volume.UnknownMount) bool { return u.Path == path })
	var u volume.UnknownMount
	if at >= 0 {
		u = k.unknown[at]
	}
	k.mu.Unlock()
	if at < 0 {
		return fault.WithHint(fault.New(fault.NotFound, "forget", "unknown mount "+path, "there is none at this path"),
			"the node lists them: berth node status")
	}
	if err := k.forgotten().Add(u, reason, by); err != nil {
		return err
	}
	k.cfg.Log.Warn("a person has said that an unknown mount is none of ours", logkey.Path, path, "reason", reason, "by",
		by)
	return k.lookForUnknown()
}
