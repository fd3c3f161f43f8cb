package images

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
)

// loadArchive gives the daemon the image of a task that an archive in the task's local directory has, and returns its
// id. No link leads out of that directory. The image gets no name: by a name tasks of other jobs would run it.
func (i *Images) loadArchive(
	ctx context.Context, cfg *driver.TaskConfig, archive string, ref reference,
) (string, error) {
	what := "config.load " + strconv.Quote(archive)
	root, err := os.OpenRoot(filepath.Join(cfg.TaskDir, "local"))
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "open", "the task's local directory")
	}
	defer func() { _ = root.Close() }() // it was read
	// A pipe that nobody writes to would hold up whoever opens it.
	f, err := root.OpenFile(strings.TrimPrefix(archive, "local/"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fault.WithHint(fault.Wrap(err, fault.Invalid, "load", what),
			"it has to lie in the task's directory local, where an artifact block can put it")
	}
	defer func() { _ = f.Close() }() // it was read
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", errors.Join(fault.New(fault.Invalid, "load", what, "it is no file"), err)
	}
	i.cfg.Tell(cfg.Alloc, cfg.Task, "Loading image from "+archive, nil)
	id, err := i.loadNameless(ctx, f, ref)
	return id, fault.Note(err, "load", what)
}

// loaded finds in what the daemon says the id of an image that it loaded and that has no name.
var loaded = regexp.MustCompile(`Loaded image ID: (sha256:[0-9a-f]{64})`)

func (i *Images) loadNameless(ctx context.Context, archive io.Reader, ref reference) (id string, err error) {
	read, write := io.Pipe()
	g, gctx := lifecycle.NewGroup(ctx)
	var unfit error
	g.Go("take names out of an archive", func() error {
		unfit = nameless(archive, write, ref)
		return write.CloseWithError(unfit)
	})
	err = i.api.Load(gctx, read, func(p dockerapi.Progress) {
		if found := loaded.FindStringSubmatch(p.Stream); found != nil {
			id = found[1]
		}
	})
	_ = read.Close() // it ends who writes
	_ = g.Wait()     // its child returns no error of its own
	switch {
	case unfit != nil && !errors.Is(unfit, io.ErrClosedPipe):
		return "", unfit
	case err != nil:
		return "", err
	case id == "":
		return "", fault.New(fault.Invalid, "", "", "the daemon does not say which image it is")
	}
	return id, nil
}

// manifestName is the file of an archive that says which images are in it.
const manifestName = "manifest.json"

// maxManifest bounds what an archive says of itself.
const maxManifest = 4 << 20

// nameless copies an archive as docker save writes it, with one image alone and without a name of it. What else could
// name images is left out; of manifest.json there may be none elsewhere, to which a link could lead the daemon.
func nameless(archive io.Reader, out io.Writer, ref reference) error {
	plain, err := uncompressed(archive)
	if err != nil {
		return err
	}
	in, to := tar.NewReader(plain), tar.NewWriter(out)
	said := false
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fault.WithHint(fault.Wrap(err, fault.Invalid, "read", "the archive"), archiveHint)
		}
		var content io.Reader = in
		name := path.Clean(h.Name)
		switch base := path.Base(name); {
		case name == manifestName && h.Typeflag == tar.TypeReg:
			text, err := chosen(in, ref)
			if err != nil {
				return err
			}
			content, said = bytes.NewReader(text), true
			h.Size = int64(len(text))
		case base == manifestName, slices.Contains([]string{"repositories", "index.json", "oci-layout"}, name):
			continue
		}
		if err := to.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(to, content); err != nil {
			return err
		}
	}
	if !said {
		return fault.WithHint(fault.New(fault.Invalid, "read", "the archive", "it has no "+manifestName), archiveHint)
	}
	return to.Close()
}

const archiveHint = "write it with docker save, and compress it with gzip alone"

func uncompressed(archive io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(archive)
	if start, err := buffered.Peek(2); err != nil || !bytes.Equal(start, []byte{0x1f, 0x8b}) {
		return buffered, nil // whether it is an archive is seen when it is read
	}
	plain, err := gzip.NewReader(buffered)
	return plain, fault.Wrap(err, fault.Invalid, "read", "the archive")
}

// packed is what an archive says of one image.
type packed struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// chosen is a manifest.json with the one image that a task asks for, and without its names.
func chosen(manifest io.Reader, ref reference) ([]byte, error) {
	var all []packed
	text, err := io.ReadAll(io.LimitReader(manifest, maxManifest+1))
	if len(text) > maxManifest {
		return nil, fault.New(fault.Invalid, "read", manifestName,
			fmt.Sprintf("it is larger than %d bytes", maxManifest))
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Invalid, "read", manifestName), archiveHint)
	}
	var names []string
	for _, p := range all {
		if slices.ContainsFunc(p.RepoTags, func(tag string) bool { return familiar(tag) == familiar(ref.whole()) }) ||
			"sha256:"+strings.TrimSuffix(path.Base(p.Config), ".json") == ref.name {
			p.RepoTags = nil
			return json.Marshal([]packed{p})
		}
		names = append(names, p.RepoTags...)
	}
	return nil, fault.WithHint(fault.New(fault.NotFound, "find", "image "+strconv.Quote(ref.whole()),
		fmt.Sprintf("the archive holds none of this name, but %q", names)), "write one of them as the task's image")
}

// familiar is the name of an image as people write it.
func familiar(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "docker.io/"), "library/")
}
