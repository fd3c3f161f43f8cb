package api

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// webSocket is the client's end of a WebSocket (RFC 6455), with text messages and no extensions.
type webSocket struct {
	conn    net.Conn
	in      *bufio.Reader
	release func() bool // stops the watch over the context

	writing sync.Mutex
	closed  bool
}

// The opcodes of frames (RFC 6455, section 5.2).
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// maxMessage bounds a message in bytes.
const maxMessage = 4 << 20

// handshakeTime bounds the opening of a WebSocket.
const handshakeTime = 30 * time.Second

// webSocket opens a WebSocket. The connection is closed when ctx ends.
func (c *Client) webSocket(ctx context.Context, r *call) (*webSocket, error) {
	u, err := c.url(r)
	if err != nil {
		return nil, err
	}
	conn, err := c.dialSocket(ctx, u.Host)
	if err != nil {
		return nil, err
	}
	ws := &webSocket{conn: conn, in: bufio.NewReader(conn)}
	ws.release = context.AfterFunc(ctx, func() { conn.Close() })
	req := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	c.authorize(req.Header)
	if err := ws.handshake(req, r); err != nil {
		ws.release()
		conn.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the call was given up: %w", ctx.Err())
		}
		return nil, err
	}
	return ws, nil
}

// dialSocket connects as the HTTP client would, without a proxy.
func (c *Client) dialSocket(ctx context.Context, host string) (net.Conn, error) {
	port := "80"
	if c.base.Scheme == "https" {
		port = "443"
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	conn, err := c.dial(ctx, "tcp", host)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the call was given up: %w", ctx.Err())
		}
		return nil, &UnreachableError{Address: c.config.Address, Err: err}
	}
	if c.base.Scheme != "https" {
		return conn, nil
	}
	config := c.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(host)
	}
	config.NextProtos = []string{"http/1.1"}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &UnreachableError{Address: c.config.Address, Err: err}
	}
	return secure, nil
}

func (ws *webSocket) handshake(req *http.Request, r *call) error {
	var nonce [16]byte
	rand.Read(nonce[:])
	key := base64.StdEncoding.EncodeToString(nonce[:])
	h := req.Header
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-WebSocket-Version", "13")
	h.Set("Sec-WebSocket-Key", key)
	if err := ws.conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if err := req.Write(ws.conn); err != nil {
		return fmt.Errorf("the connection broke: %w", err)
	}
	resp, err := http.ReadResponse(ws.in, req)
	if err != nil {
		return fmt.Errorf("the connection broke: %w", err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		return statusError(r, resp)
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	if !strings.EqualFold(resp.Header.Get("Upgrade"), "websocket") || resp.Header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) {
		return errors.New("the agent did not open a WebSocket")
	}
	return ws.conn.SetDeadline(time.Time{})
}

// writeText sends a text message.
func (ws *webSocket) writeText(data []byte) error { return ws.writeFrame(opText, data) }

// writeFrame sends one final frame, masked as a client must (section 5.3).
func (ws *webSocket) writeFrame(op byte, data []byte) error {
	frame := []byte{0x80 | op}
	switch n := len(data); {
	case n < 126:
		frame = append(frame, 0x80|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	var mask [4]byte
	rand.Read(mask[:])
	frame = append(frame, mask[:]...)
	for i, b := range data {
		frame = append(frame, b^mask[i%4])
	}
	ws.writing.Lock()
	defer ws.writing.Unlock()
	if ws.closed {
		return net.ErrClosed
	}
	ws.closed = op == opClose // nothing may follow
	if _, err := ws.conn.Write(frame); err != nil {
		return fmt.Errorf("the connection broke: %w", err)
	}
	return nil
}

// readMessage returns the next message and answers control frames on the way. A regular end is io.EOF.
func (ws *webSocket) readMessage() ([]byte, error) {
	var message []byte
	begun := false
	for {
		final, op, data, err := ws.readFrame(maxMessage - len(message))
		if err != nil {
			return nil, err
		}
		switch op {
		case opPing:
			if err := ws.writeFrame(opPong, data); err != nil {
				return nil, err
			}
			continue
		case opPong:
			continue
		case opClose:
			return nil, ws.ended(data)
		case opText, opBinary:
			if begun {
				return nil, errors.New("the agent began a message within a message")
			}
			begun = true
		case opContinuation:
			if !begun {
				return nil, errors.New("the agent continued a message that it had not begun")
			}
		default:
			return nil, fmt.Errorf("the agent sent a frame of the unknown kind %d", op)
		}
		message = append(message, data...)
		if final {
			return message, nil
		}
	}
}

// readFrame reads one frame of at most limit bytes.
func (ws *webSocket) readFrame(limit int) (final bool, op byte, data []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(ws.in, head[:]); err != nil {
		return false, 0, nil, fmt.Errorf("the connection broke: %w", err)
	}
	final, op = head[0]&0x80 != 0, head[0]&0x0f
	if head[0]&0x70 != 0 || head[1]&0x80 != 0 || (op >= opClose && (!final || head[1] > 125)) {
		return false, 0, nil, errors.New("the agent sent a frame that is not valid")
	}
	size := uint64(head[1])
	var ext [8]byte
	switch size {
	case 126:
		_, err = io.ReadFull(ws.in, ext[:2])
		size = uint64(binary.BigEndian.Uint16(ext[:2]))
	case 127:
		_, err = io.ReadFull(ws.in, ext[:])
		size = binary.BigEndian.Uint64(ext[:])
	}
	if err == nil && size > uint64(max(limit, 0)) && op < opClose {
		return false, 0, nil, fmt.Errorf("the agent sent a message of more than %d bytes", maxMessage)
	}
	if err == nil {
		data = make([]byte, size)
		_, err = io.ReadFull(ws.in, data)
	}
	if err != nil {
		return false, 0, nil, fmt.Errorf("the connection broke: %w", err)
	}
	return final, op, data, nil
}

// ended answers a close frame and says what it means: a regular end, or the agent's refusal.
func (ws *webSocket) ended(data []byte) error {
	_ = ws.writeFrame(opClose, data[:min(len(data), 2)]) // the other side has ended already
	code := 1005
	if len(data) >= 2 {
		code = int(binary.BigEndian.Uint16(data))
		data = data[2:]
	}
	if code == 1000 || code == 1005 {
		return io.EOF
	}
	text := string(data)
	if text == "" {
		text = fmt.Sprintf("the agent ended the session with code %d", code)
	}
	return &StatusError{Body: text}
}

// close says goodbye and closes the connection.
func (ws *webSocket) close() error {
	ws.release()
	_ = ws.conn.SetWriteDeadline(time.Now().Add(time.Second)) // a goodbye is a courtesy
	_ = ws.writeFrame(opClose, []byte{0x03, 0xe8})
	return ws.conn.Close()
}
