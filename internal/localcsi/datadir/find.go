package datadir

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// TopologyKey is the one topology key; its value is the node id.
const TopologyKey = "topology.local.csi.berth/node"

// VolumeID returns the external id of a volume.
func (p *Directory) VolumeID(key string) string { return request.VolumePrefix + key + "@" + p.Node }

// SnapshotID returns the external id of a snapshot.
func (p *Directory) SnapshotID(key string) string { return request.SnapshotPrefix + key + "@" + p.Node }

// lookUp finds the record that an external id names, or says with NOT_FOUND why there is none.
func lookUp[R store.Record](s *store.Collection[R], prefix, what, id, node string) (R, error) {
	var none R
	key, kind := request.ParseID(prefix, id, node)
	switch kind {
	case request.Malformed:
		return none,
			request.Refuse(codes.NotFound,
				"%s %.128q does not exist: ids of this plugin read %s<24 hex digits>@<node id>", what, id, prefix)
	case request.Elsewhere:
		return none,
			request.Refuse(codes.NotFound,
				"%s %.128q is not on node %q: it lives on the node that its id names after the @; send the call to "+
					"the instance there", what, id, node)
	}
	r, ok := s.Get(key)
	if !ok {
		return none, request.Refuse(codes.NotFound, "%s %q does not exist on node %q", what, id, node)
	}
	return r, nil
}

// Volume finds a volume by its external id.
func (p *Directory) Volume(id string) (*store.Volume, error) {
	if id == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	return lookUp(p.Volumes, request.VolumePrefix, "volume", id, p.Node)
}

// Snapshot finds a snapshot by its external id.
func (p *Directory) Snapshot(id string) (*store.Snapshot, error) {
	if id == "" {
		return nil, request.Refuse(codes.InvalidArgument, "snapshot_id is missing")
	}
	return lookUp(p.Snapshots, request.SnapshotPrefix, "snapshot", id, p.Node)
}

// LockVolume takes the volume's lock and then reads its record, which nobody changes before release is called.
func (p *Directory) LockVolume(id, op string) (v *store.Volume, release func(), err error) {
	if v, err = p.Volume(id); err != nil {
		return nil, nil, err
	}
	if release, err = p.Locks.Take(v.Key, fmt.Sprintf("%s of volume %s", op, id)); err != nil {
		return nil, nil, err
	}
	if v, err = p.Volume(id); err != nil {
		release()
		return nil, nil, err
	}
	return v, release, nil
}

// Here reports whether a topology includes this node. Keys are compared as the specification says, without case.
func (p *Directory) Here(t *csi.Topology) bool {
	for k, v := range t.GetSegments() {
		if !strings.EqualFold(k, TopologyKey) || v != p.Node {
			return false
		}
	}
	return true
}

// Topology is where everything of this data directory is accessible from.
func (p *Directory) Topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{TopologyKey: p.Node}}
}

// Reachable refuses a requirement that this node cannot meet. Preferences bind nobody.
func (p *Directory) Reachable(r *csi.TopologyRequirement, what string) error {
	if len(r.GetRequisite()) == 0 {
		return nil
	}
	for _, t := range r.GetRequisite() {
		if p.Here(t) {
			return nil
		}
	}
	return request.Refuse(codes.ResourceExhausted,
		"%s: none of the requisite topologies is node %q (%s); this instance makes storage on its own node only", what,
		p.Node, TopologyKey)
}

// ValidPath checks a path that the caller chose: absolute, clean, not the root, and not among our own files.
func (p *Directory) ValidPath(field, path string) error {
	switch {
	case path == "":
		return request.Refuse(codes.InvalidArgument, "%s is missing", field)
	case !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/":
		return request.Refuse(codes.InvalidArgument, "%s %.256q: it must be a clean absolute path below /", field, path)
	case strings.IndexByte(path, 0) >= 0 || len(path) >= unix.PathMax:
		return request.Refuse(codes.InvalidArgument, "%s has a NUL byte or is longer than %d bytes", field,
			unix.PathMax)
	case path == p.Root || strings.HasPrefix(path, p.Root+"/"):
		return request.Refuse(codes.InvalidArgument, "%s %.256q lies in the plugin's own data directory", field, path)
	}
	return nil
}

// NotMine refuses to say "deleted" of something that lives on another node.
func (p *Directory) NotMine(op, what, id string) error {
	return request.Refuse(codes.InvalidArgument,
		"%s: %s %.128q lives on the node that its id names after the @, this instance serves %q: send the call to "+
			"the instance there", op, what, id, p.Node)
}
