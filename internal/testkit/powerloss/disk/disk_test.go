package disk

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// story is a disk, and what a power loss leaves of it.
type story struct {
	*FS
	t *testing.T
}

func begin(t *testing.T) *story { return &story{FS: New(func(string) {}), t: t} }

func (s *story) file(dir *Node, name, text string) *Node {
	s.t.Helper()
	n, errno := s.Make(dir, name, syscall.S_IFREG|0o600, uint32(os.Getuid()), uint32(os.Getgid()))
	if errno != 0 {
		s.t.Fatal(errno)
	}
	s.FS.Write(n, []byte(text), 0)
	return n
}

func (s *story) dir(name string) *Node {
	s.t.Helper()
	n, errno := s.Make(s.Node(Root), name, syscall.S_IFDIR|0o700, uint32(os.Getuid()), uint32(os.Getgid()))
	if errno != 0 {
		s.t.Fatal(errno)
	}
	return n
}

func (s *story) rename(from *Node, name string, to *Node, newName string) {
	s.t.Helper()
	if errno := s.Rename(from, name, to, newName, 0); errno != 0 {
		s.t.Fatal(errno)
	}
}

// left reads what a power loss leaves; "-" is a file that is not there.
func (s *story) left(rng *rand.Rand, names ...string) string {
	s.t.Helper()
	dir := s.t.TempDir()
	if err := s.Draw(rng).Write(dir); err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			text = []byte("-")
		case err != nil:
			s.t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return strings.Join(out, " ")
}

func (s *story) want(what, want string, names ...string) {
	s.t.Helper()
	if got := s.left(nil, names...); got != want {
		s.t.Errorf("%s: %q is left, want %q", what, got, want)
	}
}

// each draws many times, and says what was left.
func (s *story) each(names ...string) map[string]bool {
	s.t.Helper()
	out := map[string]bool{}
	for seed := range uint64(60) {
		out[s.left(rand.New(rand.NewPCG(seed, 0)), names...)] = true
	}
	return out
}

func (s *story) only(got map[string]bool, want ...string) {
	s.t.Helper()
	for _, w := range want {
		if !got[w] {
			s.t.Errorf("%q is never left, but %v", w, got)
		}
		delete(got, w)
	}
	if len(got) > 0 {
		s.t.Errorf("left are %v too", got)
	}
}

func TestContentSurvivesItsSyncAndANameThatOfItsDirectory(t *testing.T) {
	s := begin(t)
	root := s.Node(Root)
	f := s.file(root, "f", "old")
	s.want("nothing synced", "-", "f")
	s.Sync(f)
	s.want("the content", "-", "f")
	s.SyncDir(root)
	s.want("the name", "old", "f")
	s.FS.Write(f, []byte("new"), 0)
	s.want("a change", "old", "f")
	s.only(s.each("f"), "old", "new")
	s.Sync(f)
	s.want("its sync", "new", "f")
	if errno := s.Remove(root, "f", false); errno != 0 {
		t.Fatal(errno)
	}
	s.only(s.each("f"), "new", "-")
	s.SyncDir(root)
	s.want("the removal", "-", "f")
}

func TestANameThatIsSyncedBeforeItsContentIsAnEmptyFile(t *testing.T) {
	s := begin(t)
	s.file(s.Node(Root), "f", "text")
	s.SyncDir(s.Node(Root))
	s.want("the name alone", "", "f")
	s.only(s.each("f"), "", "text", "\x00\x00\x00\x00")
}

func TestPagesSurviveEachByItself(t *testing.T) {
	s := begin(t)
	page := func(c string) string { return strings.Repeat(c, PageSize) }
	f := s.file(s.Node(Root), "f", page("a")+page("a"))
	s.Sync(f)
	s.SyncDir(s.Node(Root))
	s.FS.Write(f, []byte(page("b")+page("b")), 0)
	got := map[string]bool{}
	for text := range s.each("f") {
		got[text[:1]+text[PageSize:PageSize+1]] = true
	}
	s.only(got, "aa", "ab", "ba", "bb")
}

func TestARenameIsMadeWholeOrNotAtAll(t *testing.T) {
	s := begin(t)
	from, to := s.dir("from"), s.dir("to")
	s.SyncDir(s.Node(Root))
	for dir, text := range map[*Node]string{from: "new", to: "old"} {
		s.Sync(s.file(dir, "f", text))
		s.SyncDir(dir)
	}
	s.rename(from, "f", to, "f")
	s.want("the rename", "new old", "from/f", "to/f")
	s.only(s.each("from/f", "to/f"), "new old", "- new")
	s.SyncDir(from) // the one that it left is as good as the other
	s.want("its sync", "- new", "from/f", "to/f")
}

func TestChangesOfADirectorySurviveInTheirOrder(t *testing.T) {
	s := begin(t)
	root := s.Node(Root)
	for _, name := range []string{"a", "b"} {
		s.Sync(s.file(root, name, name))
	}
	s.only(s.each("a", "b"), "- -", "a -", "a b")
}

func TestADirectoryThatIsNotThereHoldsNothing(t *testing.T) {
	s := begin(t)
	dir := s.dir("d")
	s.Sync(s.file(dir, "f", "text"))
	s.SyncDir(dir)
	s.want("a directory without a name", "-", "d/f")
	s.SyncDir(s.Node(Root))
	s.want("with one", "text", "d/f")
}

func TestAFileThatIsCutOffOrPunchedReadsZeroes(t *testing.T) {
	s := begin(t)
	f := s.file(s.Node(Root), "f", "text")
	s.Resize(f, 2)
	s.Resize(f, 4)
	s.Zero(f, 0, 1)
	buf := make([]byte, 10)
	if n := f.Read(buf, 0); string(buf[:n]) != "\x00e\x00\x00" {
		t.Errorf("it holds %q", buf[:n])
	}
	s.Sync(f)
	s.SyncDir(s.Node(Root))
	s.want("its sync", "\x00e\x00\x00", "f")
}

func TestNamesAreRefusedAsAFileSystemDoes(t *testing.T) {
	s := begin(t)
	root, dir := s.Node(Root), s.dir("d")
	f := s.file(dir, "f", "")
	_, exists := s.Make(dir, "f", syscall.S_IFREG, 0, 0)
	for what, c := range map[string]struct{ got, want syscall.Errno }{
		"a name twice":               {exists, syscall.EEXIST},
		"a link in its place":        {s.Link(f, dir, "f"), syscall.EEXIST},
		"a full directory's removal": {s.Remove(root, "d", true), syscall.ENOTEMPTY},
		"a directory as a file":      {s.Remove(root, "d", false), syscall.EISDIR},
		"a file as a directory":      {s.Remove(dir, "f", true), syscall.ENOTDIR},
		"what is not there":          {s.Remove(dir, "g", false), syscall.ENOENT},
		"a file onto a directory":    {s.Rename(dir, "f", root, "d", 0), syscall.EISDIR},
		"a directory onto a file":    {s.Rename(root, "d", dir, "f", 0), syscall.ENOTDIR},
		"a rename onto what is kept": {s.Rename(dir, "f", dir, "f", noReplace), syscall.EEXIST},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}
