//go:build cgo

package main

/*
#define ETHEREAL_AGENT_TYPES
#include "ethereal_agent.h"

static int ethereal_call_label(int (*f)(void *, const ethereal_qp *, uint16_t), void *arg, const ethereal_qp *qp, uint16_t label)
{
	return f(arg, qp, label);
}
*/
import "C"

import (
	"fmt"
	"net/netip"
	"runtime/cgo"
	"strings"
	"syscall"
	"unsafe"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/batch"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/verbs"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

func addressOf(a *C.ethereal_address) netip.Addr {
	return netip.AddrFrom16(*(*[16]byte)(unsafe.Pointer(&a.addr))).Unmap()
}

func cAddress(a netip.Addr) (out C.ethereal_address) {
	*(*[16]byte)(unsafe.Pointer(&out.addr)) = a.As16()
	return out
}

func cQP(q labeller.QP) C.ethereal_qp {
	return C.ethereal_qp{dst: cAddress(q.Dst), num: C.uint32_t(q.Num)}
}

// callback is a labeller that sets labels by a C function.
type callback struct {
	remembered
	set func(labeller.Assignment) syscall.Errno
}

func (c *callback) Set(as ...labeller.Assignment) error {
	for _, a := range as {
		if e := c.set(a); e != 0 {
			return fmt.Errorf("set_label: %v: %w", a.QP, e)
		}
		c.note(a)
	}
	return nil
}

// text converts a C string; NULL is empty.
func text(s *C.char) string {
	if s == nil {
		return ""
	}
	return C.GoString(s)
}

// copyText copies a message into a C buffer.
func copyText(s string, to *C.char, size C.size_t) {
	if to == nil || size == 0 {
		return
	}
	out := unsafe.Slice((*byte)(unsafe.Pointer(to)), int(size))
	out[copy(out[:len(out)-1], s)] = 0
}

// agentOf returns the agent of a handle.
func agentOf(h C.ethereal_agent) *agent { return cgo.Handle(h).Value().(*agent) } //nolint:forcetypeassert // handles are ours

//export ethereal_open
func ethereal_open(c *C.ethereal_config, out *C.ethereal_agent, problem *C.char, size C.size_t) C.int { //nolint:revive // C's names
	*out = 0
	cfg := config{
		fabric: text(c.fabric), host: fabric.NodeID(min(uint32(c.host), 1<<31-1)), seed: uint64(c.seed),
		ca: text(c.tls_ca), cert: text(c.tls_cert), key: text(c.tls_key), name: text(c.tls_server_name),
	}
	for addr := range strings.SplitSeq(text(c.controllers), ",") {
		if addr = strings.TrimSpace(addr); addr != "" {
			cfg.controllers = append(cfg.controllers, addr)
		}
	}
	if f, arg := c.set_label, c.arg; f != nil {
		cfg.labels = &callback{set: func(a labeller.Assignment) syscall.Errno {
			qp := cQP(a.QP)
			return syscall.Errno(C.ethereal_call_label(f, arg, &qp, C.uint16_t(a.Label)))
		}}
	}
	a, err := open(cfg)
	if err != nil {
		copyText(err.Error(), problem, size)
		return -1
	}
	*out = C.ethereal_agent(cgo.NewHandle(a))
	return 0
}

//export ethereal_close
func ethereal_close(h C.ethereal_agent) { //nolint:revive // C's names
	if h != 0 {
		agentOf(h).close()
		cgo.Handle(h).Delete()
	}
}

//export ethereal_error
func ethereal_error(h C.ethereal_agent, out *C.char, size C.size_t) { //nolint:revive // C's names
	copyText(agentOf(h).lastError(), out, size)
}

// result stores an error for ethereal_error.
func result(a *agent, err error) C.int {
	if err == nil {
		return 0
	}
	a.fail(err)
	return -1
}

func qpsOf(qps *C.ethereal_qp, n C.size_t) []labeller.QP {
	out := make([]labeller.QP, 0, int(n))
	for _, q := range unsafe.Slice(qps, int(n)) {
		out = append(out, labeller.QP{Dst: addressOf(&q.dst), Num: uint32(q.num)})
	}
	return out
}

//export ethereal_add
func ethereal_add(h C.ethereal_agent, qps *C.ethereal_qp, n C.size_t) C.int { //nolint:revive // C's names
	a := agentOf(h)
	return result(a, a.Add(qpsOf(qps, n)...))
}

//export ethereal_withdraw
func ethereal_withdraw(h C.ethereal_agent, qps *C.ethereal_qp, n C.size_t) C.int { //nolint:revive // C's names
	agentOf(h).Withdraw(qpsOf(qps, n)...)
	return 0
}

//export ethereal_post
func ethereal_post(h C.ethereal_agent, ms *C.ethereal_message, n C.size_t) C.int { //nolint:revive // C's names
	a := agentOf(h)
	out := make([]batch.Message, 0, int(n))
	for _, m := range unsafe.Slice(ms, int(n)) {
		out = append(out, batch.Message{ID: uint64(m.id), Dst: addressOf(&m.dst), Bytes: int64(m.bytes)})
	}
	return result(a, a.Post(out...))
}

//export ethereal_pieces
func ethereal_pieces(h C.ethereal_agent, out *C.ethereal_piece, n C.size_t) C.size_t { //nolint:revive // C's names
	pieces := agentOf(h).takePieces(int(n))
	to := unsafe.Slice(out, int(n))
	for i, p := range pieces {
		to[i] = C.ethereal_piece{
			key: C.uint64_t(p.Key), message: C.uint64_t(p.Message), offset: C.int64_t(p.Offset), bytes: C.int64_t(p.Bytes),
			qp: C.ethereal_qp{dst: cAddress(p.Dst), num: C.uint32_t(p.QP.Num)}, label: C.uint16_t(p.Label),
		}
		if p.Labelled {
			to[i].labelled = 1
		}
	}
	return C.size_t(len(pieces))
}

//export ethereal_moves
func ethereal_moves(h C.ethereal_agent, out *C.ethereal_move, n C.size_t) C.size_t { //nolint:revive // C's names
	moves := agentOf(h).takeMoves(int(n))
	to := unsafe.Slice(out, int(n))
	for i, m := range moves {
		to[i] = C.ethereal_move{key: C.uint64_t(m.Key), from: C.uint16_t(m.From), to: C.uint16_t(m.To)}
		if m.QP.Dst.IsValid() {
			to[i].qp = cQP(m.QP)
		}
	}
	return C.size_t(len(moves))
}

//export ethereal_waiting
func ethereal_waiting(h C.ethereal_agent) C.size_t { return C.size_t(agentOf(h).Waiting()) } //nolint:revive // C's names

//export ethereal_acked
func ethereal_acked(h C.ethereal_agent, key C.uint64_t, bytes C.int64_t) C.int { //nolint:revive // C's names
	a := agentOf(h)
	return result(a, a.Acked(hostagent.QP(key), int64(bytes)))
}

//export ethereal_done
func ethereal_done(h C.ethereal_agent, key C.uint64_t) C.int { //nolint:revive // C's names
	a := agentOf(h)
	return result(a, a.Done(hostagent.QP(key)))
}

//export ethereal_timeout
func ethereal_timeout(h C.ethereal_agent, key C.uint64_t) C.int { //nolint:revive // C's names
	a := agentOf(h)
	return result(a, a.Timeout(hostagent.QP(key)))
}

//export ethereal_quench
func ethereal_quench(h C.ethereal_agent, payload unsafe.Pointer, n C.size_t, src *C.ethereal_address) C.int { //nolint:revive // C's names
	a := agentOf(h)
	_, err := a.Quench(unsafe.Slice((*byte)(payload), int(n)), addressOf(src))
	return result(a, err)
}

//export ethereal_source_port
func ethereal_source_port(label C.uint16_t) C.uint16_t { //nolint:revive // C's names
	return C.uint16_t(frame.SourcePort(fabric.Label(label)))
}

//export ethereal_flow_label
func ethereal_flow_label(label C.uint16_t) C.uint32_t { //nolint:revive // C's names
	return C.uint32_t(verbs.Config{}.FlowLabel(labeller.QP{}, fabric.Label(label)))
}
