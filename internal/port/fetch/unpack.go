package fetch

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/sizes"
)

// budget is what may still be unpacked; a bound of 0 is none.
type budget struct {
	bytes, usedBytes int64
	files, usedFiles int
}

// entry counts one.
func (b *budget) entry() error {
	if b.usedFiles++; b.files > 0 && b.usedFiles > b.files {
		return fault.WithHint(fault.New(fault.Invalid, "", "",
			fmt.Sprintf("it unpacks to more than %d files", b.files)),
			"the bound is decompression_file_count_limit of the client's artifact block")
	}
	return nil
}

// take counts bytes.
func (b *budget) take(n int64) error {
	if b.usedBytes += n; b.bytes > 0 && b.usedBytes > b.bytes {
		return fault.WithHint(fault.New(fault.Invalid, "", "",
			fmt.Sprintf("it unpacks to more than %s", sizes.Human(b.bytes))),
			"the bound is the group's ephemeral_disk size, or decompression_size_limit of the client's artifact block")
	}
	return nil
}

// Write implements io.Writer.
func (b *budget) Write(p []byte) (int, error) { return len(p), b.take(int64(len(p))) }

func damaged(err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	return fault.Wrap(err, full(err, fault.Invalid), "unpack", "it")
}

// maxWindow bounds what of a file zstd looks back upon, in bytes: as far as its own program does unasked.
const maxWindow = 128 << 20

// stream undoes the compression of a form.
func stream(form string, r io.Reader) (io.Reader, error) {
	switch form {
	case "gz", "tgz", "tar.gz":
		return gzip.NewReader(r)
	case "bz2", "tbz2", "tar.bz2":
		return bzip2.NewReader(r), nil
	case "xz", "txz", "tar.xz":
		return xz.NewReader(bufio.NewReader(r))
	case "zst", "tzst", "tar.zst":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z, nil // which ends with the child
	}
	return r, nil
}

// expand unpacks a single file.
func (f *fetching) expand(packed, plain string) error {
	in, err := f.root.Open(packed)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "what was received")
	}
	defer func() { _ = in.Close() }() // opened for reading
	r, err := stream(f.Source.Archive, in)
	if err == nil {
		err = f.write(f.root, plain, 0o644, r)
	}
	return damaged(err)
}

// unpack unpacks an archive into a new directory, in which everything stays.
func (f *fetching) unpack(packed, tree string) error {
	if err := f.root.Mkdir(tree, 0o755); err != nil {
		return fault.Wrap(err, fault.Internal, "make", "the directory of the fetch")
	}
	to, err := f.root.OpenRoot(tree)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", "the directory of the fetch")
	}
	defer func() { _ = to.Close() }() // opened for paths only
	in, err := f.root.Open(packed)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "what was received")
	}
	defer func() { _ = in.Close() }() // opened for reading
	u := &unpacking{fetching: f, to: to}
	if f.Source.Archive == "zip" {
		err = u.zip(in)
	} else {
		err = u.tar(in)
	}
	if err == nil {
		err = u.finish()
	}
	return damaged(err)
}

type unpacking struct {
	*fetching
	to    *os.Root
	links []string
	modes []entry // of directories, which are set when they are full
}

type entry struct {
	name string
	mode fs.FileMode
}

func (u *unpacking) tar(in io.Reader) error {
	plain, err := stream(u.Source.Archive, in)
	if err != nil {
		return err
	}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		mode := h.FileInfo().Mode()
		if h.Typeflag == tar.TypeLink {
			err = u.same(h.Name, h.Linkname)
		} else {
			err = u.entry(h.Name, mode, h.Linkname, r)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacking) zip(in *os.File) error {
	st, err := in.Stat()
	if err != nil {
		return err
	}
	r, err := zip.NewReader(in, st.Size())
	if err != nil {
		return err
	}
	for _, z := range r.File {
		if err := u.zipped(z); err != nil {
			return err
		}
	}
	return nil
}

// maxLink bounds where a link leads, in bytes: what the kernel takes.
const maxLink = 4096

func (u *unpacking) zipped(z *zip.File) error {
	r, err := z.Open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // opened for reading
	link := []byte(nil)
	if z.Mode()&fs.ModeSymlink != 0 {
		if link, err = io.ReadAll(io.LimitReader(r, maxLink)); err != nil {
			return err
		}
	}
	return u.entry(z.Name, z.Mode(), string(link), r)
}

// entry unpacks one. It is refused where it would leave the directory, by its name or as a link, or is no plain thing.
func (u *unpacking) entry(name string, mode fs.FileMode, link string, r io.Reader) error {
	if err := u.unpacked.entry(); err != nil {
		return err
	}
	at, err := local(name)
	if err != nil || at == "." {
		return err
	}
	if err := u.directories(path.Dir(at)); err != nil {
		return err
	}
	switch {
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 && !mode.IsDir():
		return refused(name, "it is set-user-id or set-group-id")
	case mode.IsDir():
		u.modes = append(u.modes, entry{at, mode.Perm() | 0o700})
		if err := u.to.Mkdir(at, 0o755); !errors.Is(err, fs.ErrExist) {
			return misplaced(name, err)
		}
		return nil
	case mode.IsRegular():
		return u.write(u.to, at, mode.Perm(), r)
	case mode&fs.ModeSymlink != 0:
		if leads := path.Join(path.Dir(at), link); path.IsAbs(link) || link == "" || !filepath.IsLocal(leads) {
			return refused(name, fmt.Sprintf("it is a link out of the archive, to %q", link))
		}
		u.links = append(u.links, at)
		return misplaced(name, u.to.Symlink(link, at))
	}
	return refused(name, "it is no file, directory or link")
}

// directories makes those on the way to an entry, which an archive need not name, and which count all the same.
func (u *unpacking) directories(at string) error {
	if at == "." {
		return nil
	}
	if _, err := u.to.Stat(at); !errors.Is(err, fs.ErrNotExist) {
		return misplaced(at, err)
	}
	if err := errors.Join(u.directories(path.Dir(at)), u.unpacked.entry()); err != nil {
		return err
	}
	return misplaced(at, u.to.Mkdir(at, 0o755))
}

// same unpacks an entry that is another one, which came before: a copy of it.
func (u *unpacking) same(name, as string) error {
	other, err := local(as)
	if err != nil {
		return err
	}
	st, err := u.to.Lstat(other)
	if err != nil || !st.Mode().IsRegular() {
		return refused(name, fmt.Sprintf("it is a link to %q, which is no file of the archive", as))
	}
	in, err := u.to.Open(other)
	if err != nil {
		return misplaced(name, err)
	}
	err = u.entry(name, st.Mode(), "", in)
	return errors.Join(err, in.Close())
}

// finish looks where links lead by now, and gives directories their modes.
func (u *unpacking) finish() error {
	for _, at := range u.links {
		if err := leadsOut(u.to, at); err != nil {
			return err
		}
	}
	for _, d := range u.modes {
		if err := u.to.Chmod(d.name, d.mode); err != nil {
			return misplaced(d.name, err)
		}
	}
	return nil
}

// leadsOut refuses a link that leads out of its directory, by way of others perhaps, or nowhere for good.
func leadsOut(root *os.Root, at string) error {
	if _, err := root.Stat(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refused(at, "it is a link that leads out of the artifact, or in circles")
	}
	return nil
}

// write writes a file, within the budget.
func (f *fetching) write(root *os.Root, at string, mode fs.FileMode, r io.Reader) error {
	if st, err := root.Lstat(at); err == nil && !st.IsDir() { // an archive may have a file twice: the last counts
		if err := root.Remove(at); err != nil {
			return misplaced(at, err)
		}
	}
	out, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return misplaced(at, err)
	}
	_, err = io.Copy(io.MultiWriter(&f.unpacked, out), r)
	return errors.Join(err, out.Chmod(mode), out.Close())
}

// local is the path that the name of an entry stands for.
func local(name string) (string, error) {
	at := path.Clean(strings.ReplaceAll(name, `\`, "/"))
	if strings.ContainsRune(name, 0) || !filepath.IsLocal(at) {
		return "", refused(name, "its name leads out of the archive")
	}
	if strings.Count(at, "/") >= deepest {
		return "", tooDeep(at)
	}
	return at, nil
}

func refused(name, why string) error {
	return fault.New(fault.Invalid, "unpack", fmt.Sprintf("%q", name), why)
}

func misplaced(name string, err error) error {
	return fault.Wrap(err, full(err, fault.Invalid), "unpack", fmt.Sprintf("%q", name))
}

// full is the kind of an error that is the disk's and not the artifact's, and another kind of any other.
func full(err error, otherwise fault.Kind) fault.Kind {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO) {
		return fault.Exhausted
	}
	return otherwise
}
