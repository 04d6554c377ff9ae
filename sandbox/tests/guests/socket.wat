;; A program that makes a TCP socket; it fails if it gets none.
(component
  (import "wasi:sockets/network@0.2.0" (instance $network
    (type $code (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout"
      "concurrency-conflict" "not-in-progress" "would-block" "invalid-state" "new-socket-limit" "address-not-bindable"
      "address-in-use" "remote-unreachable" "connection-refused" "connection-reset" "connection-aborted"
      "datagram-too-large" "name-unresolvable" "temporary-resolver-failure" "permanent-resolver-failure"))
    (export "error-code" (type (eq $code)))
    (type $family (enum "ipv4" "ipv6"))
    (export "ip-address-family" (type (eq $family)))))
  (alias export $network "error-code" (type $error-code))
  (alias export $network "ip-address-family" (type $ip-address-family))
  (import "wasi:sockets/tcp@0.2.0" (instance $tcp (export "tcp-socket" (type (sub resource)))))
  (alias export $tcp "tcp-socket" (type $socket))
  (import "wasi:sockets/tcp-create-socket@0.2.0" (instance $create
    (alias outer 1 $error-code (type $e0)) (export "error-code" (type $e (eq $e0)))
    (alias outer 1 $ip-address-family (type $f0)) (export "ip-address-family" (type $f (eq $f0)))
    (alias outer 1 $socket (type $s0)) (export "tcp-socket" (type $s (eq $s0)))
    (type $own (own $s))
    (type $made (result $own (error $e)))
    (export "create-tcp-socket" (func (param "address-family" $f) (result $made)))))
  (core module $memory (memory (export "mem") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
  (core instance $m (instantiate $memory))
  (core func $lowered (canon lower (func $create "create-tcp-socket") (memory (core memory $m "mem"))))
  (core module $main
    (import "m" "mem" (memory 1))
    (import "s" "create" (func $create (param i32 i32)))
    (func (export "run") (result i32) (call $create (i32.const 0) (i32.const 64)) (i32.load8_u (i32.const 64)))
    )
  (core instance $i (instantiate $main (with "m" (instance $m)) (with "s" (instance (export "create" (func $lowered))))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (component $c (import "r" (func $r (result (result)))) (export "run" (func $r)))
  (instance $out (instantiate $c (with "r" (func $run))))
  (export "wasi:cli/run@0.2.0" (instance $out)))
