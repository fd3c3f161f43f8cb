package api

import (
	"time"
)

// AllocFileInfo is a file of an allocation.
type AllocFileInfo struct {
	Name        string
	IsDir       bool
	Size        int64
	FileMode    string
	ModTime     time.Time
	ContentType string
}

// What a StreamFrame's FileEvent may say.
const (
	StreamFileDeleted   = "file deleted"
	StreamFileTruncated = "file truncated"
)

// StreamFrame is a part of a log or a file. Offset is the position in File after Data. The empty frame is a
// heartbeat.
type StreamFrame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

// IsHeartbeat reports whether the frame carries nothing.
func (f *StreamFrame) IsHeartbeat() bool {
	return f.Offset == 0 && f.Data == nil && f.File == "" && f.FileEvent == ""
}

// ExecStreamingInput is a message from the user to a program started by alloc exec. The empty one is a heartbeat.
type ExecStreamingInput struct {
	Stdin   *ExecStreamingIOOperation `json:"stdin,omitempty"`
	TTYSize *TerminalSize             `json:"tty_size,omitempty"`
}

// ExecStreamingOutput is a message from that program to the user. The last one has Exited set.
type ExecStreamingOutput struct {
	Stdout *ExecStreamingIOOperation `json:"stdout,omitempty"`
	Stderr *ExecStreamingIOOperation `json:"stderr,omitempty"`
	Exited bool                      `json:"exited,omitempty"`
	Result *ExecStreamingExitResult  `json:"result,omitempty"`
}

// ExecStreamingIOOperation is bytes, or the end of a stream.
type ExecStreamingIOOperation struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Height int `json:"height,omitempty"`
	Width  int `json:"width,omitempty"`
}

// ExecStreamingExitResult is how the program ended.
type ExecStreamingExitResult struct {
	ExitCode int `json:"exit_code"`
}
