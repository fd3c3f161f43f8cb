package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"berth/internal/base/fault"
	"berth/internal/base/flock"
)

// Check reads every page of a store that nobody writes, and says what in it is damaged; buckets name those that must be
// there. It reads the file by itself: the library panics at a page that is not what it should be, and the kernel ends a
// process that reads a mapped file beyond its end. The form is that of bbolt's file, version 2.
func Check(path string, buckets ...string) error {
	f, err := os.Open(path)
	if err != nil {
		return classify(err, "check store", path)
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := flock.Try(f, syscall.LOCK_SH); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return held(path)
		}
		return classify(err, "check store", path)
	}
	info, err := f.Stat()
	if err != nil {
		return classify(err, "check store", path)
	}
	c := check{file: f, size: info.Size(), seen: map[uint64]bool{}}
	if err := c.all(buckets); err != nil {
		return fault.Wrap(err, fault.Internal, "check store", path)
	}
	return nil
}

// OpenToRead opens a store that is there, and is whole, for reading alone: nothing of it is changed.
func OpenToRead(path string, codec Codec) (*Store, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Millisecond})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, held(path)
	case err != nil:
		return nil, classify(err, "read store", path)
	}
	return &Store{path: path, codec: codec, db: db}, nil
}

// Read hands the value of a key to use, unless there is none. The store is not changed.
func Read(path, bucket, key string, use func([]byte) error) (err error) {
	s, err := OpenToRead(path, Codec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		if b == nil {
			return nil
		}
		if v := b.Get([]byte(key)); v != nil {
			return use(v)
		}
		return nil
	})
}

// Sizes and marks of the file's form.
const (
	pageHeader    = 16
	pageElement   = 16
	bucketHeader  = 16
	metaSize      = 64 // with its checksum, the last eight bytes
	metaMagic     = 0xED0CDAED
	metaVersion   = 2
	branchPage    = 0x01
	leafPage      = 0x02
	freelistPage  = 0x10
	bucketElement = 0x01
	noFreelist    = ^uint64(0)
	maxDepth      = 64
	minPageSize   = 1 << 10
	maxPageSize   = 1 << 16
)

// check is one reading of a file.
type check struct {
	file     io.ReaderAt
	size     int64
	pageSize int64
	high     uint64 // pages from here on are not in use
	seen     map[uint64]bool
	names    []string // of the outermost buckets
}

func (c *check) all(buckets []string) error {
	root, freelist, err := c.meta()
	if err != nil {
		return err
	}
	if need := int64(c.high) * c.pageSize; c.high > uint64(c.size) || c.size < need {
		return fmt.Errorf("it is cut off: it has %d bytes, and its records take %d", c.size, need)
	}
	if err := c.tree(root, 0, true); err != nil {
		return err
	}
	for _, b := range buckets {
		if !slices.Contains(c.names, b) {
			return fmt.Errorf("it does not hold %q, which was made with it", b)
		}
	}
	if freelist == noFreelist {
		return nil
	}
	return c.free(freelist)
}

// meta reads the first two pages, of which each describes the file after one of the last two transactions: the later
// one counts, unless its writing was cut off.
func (c *check) meta() (root, freelist uint64, err error) {
	if c.size == 0 {
		return 0, 0, errors.New("it is empty")
	}
	best := make([]byte, 0, metaSize)
	consider := func(at int64) {
		m := make([]byte, metaSize)
		if _, err := c.file.ReadAt(m, at+pageHeader); err != nil || !soundMeta(m) {
			return
		}
		if len(best) == 0 || binary.NativeEndian.Uint64(m[48:]) > binary.NativeEndian.Uint64(best[48:]) {
			best = m
		}
	}
	consider(0)
	for size := int64(minPageSize); len(best) == 0 && size <= maxPageSize; size *= 2 {
		consider(size)
	}
	if len(best) == 0 {
		return 0, 0, errors.New("neither of its first two pages is whole")
	}
	c.pageSize = int64(binary.NativeEndian.Uint32(best[8:]))
	if c.pageSize < minPageSize || c.pageSize > maxPageSize {
		return 0, 0, fmt.Errorf("its pages would have %d bytes", c.pageSize)
	}
	consider(c.pageSize)
	c.high = binary.NativeEndian.Uint64(best[40:])
	return binary.NativeEndian.Uint64(best[16:]), binary.NativeEndian.Uint64(best[32:]), nil
}

func soundMeta(m []byte) bool {
	h := fnv.New64a()
	_, _ = h.Write(m[:metaSize-8]) // a hash takes everything
	return binary.NativeEndian.Uint32(m) == metaMagic && binary.NativeEndian.Uint32(m[4:]) == metaVersion &&
		binary.NativeEndian.Uint64(m[metaSize-8:]) == h.Sum64()
}

// page reads a page with what belongs to it, and makes sure that nothing else has led there.
func (c *check) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.high {
		return nil, fmt.Errorf("a record leads to page %d, of %d pages", id, c.high)
	}
	head := make([]byte, pageHeader)
	if _, err := c.file.ReadAt(head, int64(id)*c.pageSize); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	if got := binary.NativeEndian.Uint64(head); got != id {
		return nil, fmt.Errorf("page %d is damaged: it says that it is page %d", id, got)
	}
	more := uint64(binary.NativeEndian.Uint32(head[12:]))
	if more >= c.high-id {
		return nil, fmt.Errorf("page %d is damaged: %d pages would follow it, of %d in all", id, more, c.high)
	}
	for i := id; i <= id+more; i++ {
		if c.seen[i] {
			return nil, fmt.Errorf("page %d is damaged: it is used twice", i)
		}
		c.seen[i] = true
	}
	data := make([]byte, int64(1+more)*c.pageSize)
	if _, err := c.file.ReadAt(data, int64(id)*c.pageSize); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	return data, nil
}

// tree follows the records from a page on; outer: they are the outermost buckets.
func (c *check) tree(id uint64, depth int, outer bool) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d is damaged: it lies %d pages deep", id, depth)
	}
	data, err := c.page(id)
	if err != nil {
		return err
	}
	return c.elements(id, data, depth, outer)
}

// elements follows what a page of records holds; data may be that of a small bucket, which lies in its record.
func (c *check) elements(id uint64, data []byte, depth int, outer bool) error {
	flags, count := binary.NativeEndian.Uint16(data[8:]), int(binary.NativeEndian.Uint16(data[10:]))
	if flags != branchPage && flags != leafPage || flags == branchPage && count == 0 {
		return fmt.Errorf("page %d is damaged: it has kind %#x and %d records", id, flags, count)
	}
	if pageHeader+count*pageElement > len(data) {
		return fmt.Errorf("page %d is damaged: %d records are more than it can hold", id, count)
	}
	var last []byte
	for i := range count {
		e := data[pageHeader+i*pageElement:]
		key, value, whole := element(e, flags == leafPage)
		switch {
		case !whole:
			return fmt.Errorf("page %d is damaged: record %d reaches beyond it", id, i)
		case i > 0 && bytes.Compare(last, key) >= 0:
			return fmt.Errorf("page %d is damaged: record %d is out of order", id, i)
		}
		last = key
		var err error
		switch {
		case flags == branchPage:
			err = c.tree(binary.NativeEndian.Uint64(e[8:]), depth+1, outer)
		case binary.NativeEndian.Uint32(e)&bucketElement != 0:
			if outer {
				c.names = append(c.names, string(key))
			}
			err = c.bucket(id, value, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// element is the key and the value of the record that e begins with; those of a branch have no value.
func element(e []byte, leaf bool) (key, value []byte, whole bool) {
	var at, keyLen, valueLen uint64
	if leaf {
		at, keyLen = uint64(binary.NativeEndian.Uint32(e[4:])), uint64(binary.NativeEndian.Uint32(e[8:]))
		valueLen = uint64(binary.NativeEndian.Uint32(e[12:]))
	} else {
		at, keyLen = uint64(binary.NativeEndian.Uint32(e)), uint64(binary.NativeEndian.Uint32(e[4:]))
	}
	if at+keyLen+valueLen > uint64(len(e)) {
		return nil, nil, false
	}
	return e[at:][:keyLen], e[at+keyLen:][:valueLen], true
}

func (c *check) bucket(id uint64, value []byte, depth int) error {
	if len(value) < bucketHeader {
		return fmt.Errorf("page %d is damaged: it holds a bucket of %d bytes", id, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.tree(root, depth+1, false)
	}
	inline := value[bucketHeader:]
	if len(inline) < pageHeader || depth >= maxDepth {
		return fmt.Errorf("page %d is damaged: it holds a bucket of %d bytes", id, len(value))
	}
	return c.elements(id, inline, depth+1, false)
}

// free follows the list of pages that may be used again.
func (c *check) free(id uint64) error {
	data, err := c.page(id)
	if err != nil {
		return err
	}
	if flags := binary.NativeEndian.Uint16(data[8:]); flags != freelistPage {
		return fmt.Errorf("page %d is damaged: it should list free pages, and has kind %#x", id, flags)
	}
	count, list := uint64(binary.NativeEndian.Uint16(data[10:])), data[pageHeader:]
	if count == 0xFFFF { // the number does not fit in its place
		count, list = binary.NativeEndian.Uint64(list), list[8:]
	}
	if count > uint64(len(list)/8) {
		return fmt.Errorf("page %d is damaged: %d free pages are more than it can name", id, count)
	}
	for i := range count {
		p := binary.NativeEndian.Uint64(list[8*i:])
		if p < 2 || p >= c.high || c.seen[p] {
			return fmt.Errorf("page %d is damaged: it calls page %d free, which is not", id, p)
		}
		c.seen[p] = true
	}
	return nil
}
