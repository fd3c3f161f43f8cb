package docker

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"io"
	"path"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// maxUsers bounds what is read of an image's list of users; bytes.
const maxUsers = 1 << 20

// numbers are the numbers of a user, as the image knows him.
func (d *Driver) numbers(ctx context.Context, container, user string) (uid, gid int, err error) {
	name, group, hasGroup := strings.Cut(user, ":")
	uid, numeric := number(name)
	gid, groupNumeric := number(group)
	if numeric && (!hasGroup || groupNumeric) {
		return uid, gid, nil
	}
	unknown := func(what string) (int, int, error) {
		return 0, 0, fault.WithHint(fault.New(fault.Invalid, "", "user "+strconv.Quote(user), what+
			" is not in the image"), "name one of the image, or write numbers")
	}
	if !numeric {
		line, err := d.lookup(ctx, container, "/etc/passwd", name)
		if err != nil {
			return 0, 0, err
		}
		if len(line) < 4 {
			return unknown("the user")
		}
		uid, _ = number(line[2])
		if !hasGroup {
			gid, _ = number(line[3])
		}
	}
	if hasGroup && !groupNumeric {
		line, err := d.lookup(ctx, container, "/etc/group", group)
		if err != nil {
			return 0, 0, err
		}
		if len(line) < 3 {
			return unknown("the group")
		}
		gid, _ = number(line[2])
	}
	return uid, gid, nil
}

func number(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

// lookup finds the line of a name in a file of a container; nil: there is none.
func (d *Driver) lookup(ctx context.Context, container, file, name string) ([]string, error) {
	text, err := d.file(ctx, container, file)
	if fault.Has(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if fields := strings.Split(s.Text(), ":"); fields[0] == name {
			return fields, nil
		}
	}
	return nil, nil
}

// maxLinks is how many links are followed to a file of an image.
const maxLinks = 8

// file reads a file of a container. Where a link leads is looked for in the container, as its processes would.
func (d *Driver) file(ctx context.Context, container, name string) ([]byte, error) {
	for range maxLinks {
		text, link, err := d.fileOrLink(ctx, container, name)
		if err != nil || link == "" {
			return text, err
		}
		if !path.IsAbs(link) {
			link = path.Join(path.Dir(name), link)
		}
		name = path.Clean(link)
	}
	return nil, fault.New(fault.NotFound, "read", name, "too many links lead to it")
}

func (d *Driver) fileOrLink(ctx context.Context, container, name string) (text []byte, link string, err error) {
	archive, err := d.api.Archive(ctx, container, name)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = archive.Close() }() // it was read
	r := tar.NewReader(archive)
	h, err := r.Next()
	switch {
	case err != nil:
		return nil, "", fault.Wrap(err, fault.Unavailable, "read", name)
	case h.Typeflag == tar.TypeSymlink:
		return nil, h.Linkname, nil
	case h.Typeflag != tar.TypeReg:
		return nil, "", fault.New(fault.NotFound, "read", name, "it is no file")
	}
	text, err = io.ReadAll(io.LimitReader(r, maxUsers))
	return text, "", fault.Wrap(err, fault.Unavailable, "read", name)
}
