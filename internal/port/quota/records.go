package quota

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// attributes are a struct fsxattr: five words, of which the first are flags and the fourth is the project, and padding.
type attributes [28]byte

const (
	atFlags   = 0
	atProject = 12
	inherited = 0x200 // FS_XFLAG_PROJINHERIT: what is made in the directory gets its project, and this flag
)

func (a *attributes) project() uint32 { return binary.NativeEndian.Uint32(a[atProject:]) }

func (a *attributes) give(project uint32) {
	binary.NativeEndian.PutUint32(a[atFlags:], binary.NativeEndian.Uint32(a[atFlags:])|inherited)
	binary.NativeEndian.PutUint32(a[atProject:], project)
}

func (p Projects) attributes(dir *os.File) (*attributes, error) {
	var a attributes
	return &a, p.kernel().Ioctl(int(dir.Fd()), getAttributes, a[:])
}

// limits are a struct if_dqblk: eight words of 64 bits, and one of 32 that says which of them are meant.
type limits [72]byte

const (
	atBlockLimit   = 0 // hard and soft, in blockUnit
	atBytes        = 16
	atFileLimit    = 24 // hard and soft
	atFiles        = 40
	atMeant        = 64
	limitsAreMeant = 1 | 4 // QIF_BLIMITS | QIF_ILIMITS
	blockUnit      = 1024  // QIF_DQBLKSIZE
)

func (l *limits) bytes() int64 { return int64(binary.NativeEndian.Uint64(l[atBytes:])) }
func (l *limits) files() int64 { return int64(binary.NativeEndian.Uint64(l[atFiles:])) }

// empty says that nothing is counted for a project. A directory counts as a file of its project, so none has it. It may
// have a limit: from a try that was cut off.
func (l *limits) empty() bool { return l.bytes() == 0 && l.files() == 0 }

func (p Projects) limits(dir *os.File, project uint32) (*limits, error) {
	var l limits
	err := p.kernel().Quotactl(int(dir.Fd()), getLimits, project, l[:])
	if errors.Is(err, unix.ENOENT) { // xfs of one that it never counted
		return &limits{}, nil
	}
	return &l, err
}

// limit holds a project to so many bytes; 0: to nothing.
func (p Projects) limit(dir *os.File, project uint32, bytes int64) error {
	var l limits
	if bytes > 0 {
		blocks, files := uint64(bytes+blockUnit-1)/blockUnit, uint64(bytes/perFile)
		for _, at := range []int{atBlockLimit, atBlockLimit + 8} {
			binary.NativeEndian.PutUint64(l[at:], blocks)
		}
		for _, at := range []int{atFileLimit, atFileLimit + 8} {
			binary.NativeEndian.PutUint64(l[at:], files)
		}
	}
	binary.NativeEndian.PutUint32(l[atMeant:], limitsAreMeant)
	return p.kernel().Quotactl(int(dir.Fd()), setLimits, project, l[:])
}

// Of a struct fs_quota_stat only the flags are read.
const (
	sizeState    = 80
	atStateFlags = 2
	counted      = 1 << 4 // FS_QUOTA_PDQ_ACCT
	held         = 1 << 5 // FS_QUOTA_PDQ_ENFD
)
