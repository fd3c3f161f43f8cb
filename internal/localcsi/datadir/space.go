package datadir

import (
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/sizes"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/request"
)

// space promises capacity. A volume is promised its full size although its image is sparse, and blocks that two images
// share are counted as if every one of them were written anew: a volume that was made never runs out of blocks below.
type space struct {
	mu      sync.Mutex
	pending map[*reservation]struct{} // promised to calls that are not done
}

type reservation struct {
	bytes int64
	path  string // what is stored there takes from the bytes; may be empty
}

// Reserve sets n bytes aside for what is made at path until release is called, or refuses with RESOURCE_EXHAUSTED.
func (p *Directory) Reserve(n int64, what, path string) (release func(), err error) {
	p.space.mu.Lock()
	defer p.space.mu.Unlock()
	free, err := p.free()
	if err != nil {
		return nil, err
	}
	if n > free {
		return nil, request.Refuse(codes.ResourceExhausted,
			"%s needs %s, node %q has %s left for volumes and snapshots: delete some, or raise the plugin's capacity",
			what, sizes.Human(n), p.Node, sizes.Human(free))
	}
	r := &reservation{bytes: n, path: path}
	if p.space.pending == nil {
		p.space.pending = map[*reservation]struct{}{}
	}
	p.space.pending[r] = struct{}{}
	return func() {
		p.space.mu.Lock()
		defer p.space.mu.Unlock()
		delete(p.space.pending, r)
	}, nil
}

// Available reports how large a volume could be made now.
func (p *Directory) Available() (int64, error) {
	p.space.mu.Lock()
	defer p.space.mu.Unlock()
	return p.free()
}

// free is called with space.mu held.
func (p *Directory) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(p.Root, &st); err != nil {
		return 0, err
	}
	below := int64(st.Bavail) * st.Bsize
	promised := int64(0)
	for _, v := range p.Volumes.All() {
		promised += v.Size
		below -= v.Shared
		if has, err := image.Allocated(p.Volumes.Image(v.Key)); err == nil {
			below -= max(0, v.Size-has)
		}
	}
	for _, s := range p.Snapshots.All() {
		promised += s.Stored
		below -= s.Shared
	}
	for r := range p.space.pending {
		promised += r.bytes
		below -= r.bytes
		if has, err := image.Allocated(r.path); err == nil {
			below += min(has, r.bytes)
		}
	}
	free := below
	if p.Capacity > 0 {
		free = min(free, p.Capacity-promised)
	}
	return max(0, free), nil
}
