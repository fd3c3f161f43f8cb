package evidence

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// UnknownMounts lists mounts in the plugins' directories that no entry knows, and id files there that cannot be read;
// known holds the paths of the entries. Each place is listed once, with its topmost mount.
func UnknownMounts(
	dataDir string, known map[string]bool, table *hostfs.Table, unreadable []string,
) (out []volume.UnknownMount) {
	root := csiDir(dataDir)
	seen := map[string]bool{}
	add := func(u volume.UnknownMount) {
		if !seen[u.Path] {
			seen[u.Path] = true
			out = append(out, u)
		}
	}
	for _, m := range table.Beneath(root) {
		rel, err := filepath.Rel(root, m.Path)
		if err != nil {
			continue // both paths are absolute: there is no such error
		}
		// <plugin>/s/<volume>[/…] and <plugin>/p/<publication>/m[/…]; a plugin's base alone is a shared mount of ours.
		parts := strings.Split(rel, "/")
		depth := 3
		if len(parts) > 1 && parts[1] == "p" {
			depth = 4
		}
		if len(parts) < 2 || len(parts) >= depth && known[filepath.Join(root, filepath.Join(parts[:depth]...))] {
			continue
		}
		add(volume.UnknownMount{Path: m.Path, Dir: parts[0], Device: m.Device, FSType: m.FSType})
	}
	for _, name := range unreadable {
		path := placeOf(name)
		rel, err := filepath.Rel(root, path)
		if err == nil && !known[path] {
			add(volume.UnknownMount{Path: path, Dir: strings.Split(rel, "/")[0]})
		}
	}
	slices.SortFunc(out, func(a, b volume.UnknownMount) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// placeOf is the staging path or target that an id file names by where it lies.
func placeOf(idFile string) string {
	place := strings.TrimSuffix(idFile, ".id")
	if filepath.Base(filepath.Dir(place)) == "p" {
		return place + "/m"
	}
	return place
}

// IDFileOf is where the id file of a staging path or target lies.
func IDFileOf(place string) string {
	parent := filepath.Dir(place)
	if filepath.Base(place) == "m" && filepath.Base(filepath.Dir(parent)) == "p" { // a plugin may be called p, too
		return parent + ".id"
	}
	return place + ".id"
}

// Named makes the entry of a claim that an unknown mount belongs to: its path is the hash of what the claim names. What
// the claim does not tell of a call's arguments comes with the next permission. It is nil when no mount is the claim's.
func Named(dataDir string, c *volume.Claim, unknown []volume.UnknownMount) *IDFile {
	base := filepath.Join(csiDir(dataDir), ids.Segment(string(c.Plugin)))
	staging := filepath.Join(base, volume.StagingTail(c.ExternalID))
	target := filepath.Join(base, TargetTail(c.ExternalID, c.Alloc))
	at := func(path string) bool {
		return slices.ContainsFunc(unknown, func(u volume.UnknownMount) bool {
			return u.Path == path || strings.HasPrefix(u.Path, path+"/")
		})
	}
	f := &IDFile{Key: c.Staging(), Volume: c.Volume, Staging: entry.Staging{
		Presence: volume.Uncertain,
		Guessed:  true,
		Args: entry.Args{
			AccessMode:     c.AccessMode,
			AttachmentMode: c.AttachmentMode,
			MountOptions:   c.MountOptions.Clone(),
		},
		HostPath: staging,
	}}
	if at(target) {
		f.Alloc = c.Alloc
		f.Pub = &entry.Publication{
			Alias:    c.Alias,
			Epoch:    c.Epoch,
			Presence: volume.Uncertain,
			ReadOnly: c.ReadOnly,
			HostPath: target,
		}
	}
	if f.Pub == nil && !at(staging) {
		return nil
	}
	return f
}

// MountID names a mount of a boot as exactly as the kernel does.
func MountID(boot string, m hostfs.Mount) string {
	if id := hostfs.UniqueID(m.ID); id != 0 {
		return fmt.Sprintf("%s/%d", boot, id)
	}
	return fmt.Sprintf("%s/%d %s %s", boot, m.ID, m.Device, m.Root)
}
