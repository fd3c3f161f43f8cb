package datadir

import (
	"math"
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
	below, capacity, err := p.left()
	if err != nil {
		return nil, err
	}
	if free := max(0, min(below, capacity)); n > free {
		way := "raise the plugin's capacity"
		if below <= capacity {
			way = "free space in the file system of " + p.Root + ", which holds no more than it has promised in full"
		}
		return nil, request.Refuse(codes.ResourceExhausted,
			"%s needs %s, node %q has %s left for volumes and snapshots: delete some, or %s",
			what, sizes.Human(n), p.Node, sizes.Human(free), way)
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
	below, capacity, err := p.left()
	return max(0, min(below, capacity)), err
}

// left is what is not promised yet of the file system, and of the plugin's capacity; below 0: something else has taken
// what was promised. It is called with space.mu held.
func (p *Directory) left() (below, capacity int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(p.Root, &st); err != nil {
		return 0, 0, err
	}
	below = int64(st.Bavail) * st.Bsize
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
	capacity = math.MaxInt64
	if p.Capacity > 0 {
		capacity = p.Capacity - promised
	}
	return below, capacity, nil
}
