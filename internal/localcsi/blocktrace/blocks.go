package blocktrace

import (
	"math/bits"
	"slices"
)

// BlockSize is the unit in which writes are known, in bytes.
const BlockSize = 4096

// regionBlocks is how many blocks one bitmap covers. What is never written takes no memory.
const regionBlocks = 1 << 16

// Blocks is a set of blocks of a device.
type Blocks struct {
	regions map[int64]*[regionBlocks / 64]uint64
}

// Add adds the blocks of which a part lies in from…to, in bytes.
func (b *Blocks) Add(from, to int64) {
	if b.regions == nil {
		b.regions = map[int64]*[regionBlocks / 64]uint64{}
	}
	for n := from / BlockSize; n*BlockSize < to; n++ {
		r := b.regions[n/regionBlocks]
		if r == nil {
			r = new([regionBlocks / 64]uint64)
			b.regions[n/regionBlocks] = r
		}
		r[n%regionBlocks/64] |= 1 << (n % 64)
	}
}

func (b *Blocks) addAll(more *Blocks) {
	_ = more.Each(func(from, to int64) error { b.Add(from, to); return nil }) // which fails nowhere
}

// Bytes reports how much the blocks hold together.
func (b *Blocks) Bytes() int64 {
	n := 0
	for _, r := range b.regions {
		for _, word := range r {
			n += bits.OnesCount64(word)
		}
	}
	return int64(n) * BlockSize
}

// Each calls fn with the stretches of neighbouring blocks, in their order, in bytes.
func (b *Blocks) Each(fn func(from, to int64) error) error {
	keys := make([]int64, 0, len(b.regions))
	for k := range b.regions {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	from, to := int64(-1), int64(-1) // in blocks
	for _, k := range keys {
		for i, word := range b.regions[k] {
			for ; word != 0; word &= word - 1 {
				n := k*regionBlocks + int64(i)*64 + int64(bits.TrailingZeros64(word))
				if n != to && to >= 0 {
					if err := fn(from*BlockSize, to*BlockSize); err != nil {
						return err
					}
				}
				if n != to {
					from = n
				}
				to = n + 1
			}
		}
	}
	if to < 0 {
		return nil
	}
	return fn(from*BlockSize, to*BlockSize)
}
