"""Every sentence about HTTP that shadow promises, with the tests that hold it to it.

Two tables: what identical, judged, ended and so on mean; and how proxies that mirror are known to
fail. A test that is renamed or goes away fails here.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

F, E, W, M = "relay/fidelity", "relay/ends", "relay/whole", "relay/mirror"
"""relay/NAME is tests/relay/test_relay_NAME.py (gateways/NAME alike), AREA/NAME tests/AREA/test_NAME.py."""

PROMISES: dict[str, list[str]] = {
    # Identical
    "Identical means: request target": [f"{F}: test_targets_are_byte_identical"],
    "status and reason": [f"{F}: test_status_and_reason_are_identical"],
    "end-to-end fields (order, spelling, repeats, bytes)": [
        f"{F}: test_fields_keep_order_spelling_repeats_and_bytes",
        "relay/forwarding: test_by_default_nothing_is_added_or_changed",
    ],
    "the body after transfer decoding": [
        f"{F}: test_no_hidden_body_limit",
        f"{F}: test_coded_bodies_stay_coded",
        "relay/framing: test_any_body_comes_back",
    ],
    "where both sides speak 1.1, chunk boundaries and trailers": [
        f"{F}: test_chunks_and_trailers_pass_as_they_came",
        f"{F}: test_byte_by_byte",
    ],
    "Connection and what it names, Keep-Alive, Proxy-Connection, TE, Transfer-Encoding, Upgrade "
    "belong to a hop": [
        f"{F}: test_hop_by_hop_fields_stay_on_their_hop",
        f"{F}: test_connection_cannot_name_the_framing_away",
    ],
    "Towards upstreams always 1.1. A 1.0 client gets the body de-chunked, no trailers, no 1xx, and "
    "a close": [
        f"{F}: test_a_1_0_client_gets_the_body_dechunked_and_a_close",
        f"{E}: test_cut_chunks_are_a_reset_to_a_1_0_client",
        "relay/answer: test_towards_a_1_0_client",
    ],
    # Requests are judged strictly
    "CL with TE, differing or odd lengths, any coding but a lone chunked, folding, bare LF or CR, "
    "NUL, white space before a colon, two Hosts, none in 1.1: 400 and close": [
        f"{F}: test_ambiguous_requests_are_refused",
        f"{F}: test_a_1_1_request_names_its_host",
        f"{F}: test_a_bare_lf_head_is_refused_at_once",
        "relay/head: test_refused_however_it_is_cut",
        "relay/framing: test_bad_chunks_are_refused_in_requests",
        "relay/fuzz: test_three_parsers_agree",
    ],
    "Fields up to 64 KiB in all, beyond it 431": [
        f"{F}: test_fields_up_to_64_kib",
        "relay/head: test_the_limit_is_the_same_however_it_is_cut",
    ],
    # Answers leniently
    "Answers leniently, so that no client gets an error it would not have had": [
        f"{F}: test_answers_are_read_leniently",
        f"{F}: test_answers_in_bare_lf",
        f"{F}: test_a_1_0_upstream_is_heard",
    ],
    "TE with CL: chunked wins, CL is removed, neither connection reused": [
        f"{F}: test_length_beside_coding_ends_both_connections"
    ],
    "folding: one space; equal lengths repeated: one": [
        f"{F}: test_answers_are_read_leniently",
        "relay/answer: test_folding_and_odd_lines",
    ],
    "502 only where no framing can be found, counted bad_upstream_framing": [
        f"{F}: test_502_only_without_framing",
        "relay/answer: test_no_reading",
    ],
    # Ends
    "a reset upstream reaches the client as a reset (a truncated unframed answer would look "
    "whole)": [
        f"{E}: test_a_reset_reaches_the_client_as_a_reset",
        f"{E}: test_what_came_with_the_reset_is_not_lost",
        f"{E}: test_a_cut_answer_ends_as_it_was_cut",
    ],
    "a client's FIN is a disconnect": [
        f"{E}: test_a_client_s_end_reaches_the_primary_at_once",
        f"{W}: test_a_client_that_leaves_before_the_first_byte",
        f"{E}: test_a_client_that_leaves_while_the_primary_is_connected_to",
    ],
    "A connection is reused only if both messages ended, nothing is left in the buffer, and nobody "
    "said close": [
        f"{E}: test_connections_are_reused",
        f"{E}: test_an_unfit_upstream_connection_is_not_reused",
        f"{E}: test_a_client_that_says_close_is_closed",
        "relay/slices: test_what_waits_behind_a_whole_answer_is_left_over",
    ],
    "a byte on an idle upstream closes it": [f"{E}: test_a_byte_on_an_idle_upstream_closes_it"],
    "After a final answer that came before the upload's end, both are closed, unless the upload "
    "ends within 64 KiB": [
        f"{E}: test_an_early_answer_keeps_both_if_the_upload_ends_soon",
        f"{E}: test_an_early_answer_ends_both_if_the_upload_goes_on",
    ],
    # Upgrade
    "Upgrade passes for websocket only, and the client's bytes wait for the 101": [
        f"{E}: test_a_websocket_passes",
        f"{E}: test_a_refused_websocket_is_an_ordinary_answer",
        "relay/head: test_only_a_plain_websocket_is_an_upgrade",
    ],
    "h2c is stripped with HTTP2-Settings; CONNECT is 501": [
        f"{E}: test_h2c_is_stripped",
        f"{F}: test_connect_is_501",
    ],
    # A stale connection
    "one retry, only if the socket was reused, it closed before any byte of the answer and within "
    "100 ms of the first byte written": [
        f"{E}: test_a_stale_connection_is_tried_once_more",
        f"{E}: test_a_fresh_connection_is_not_retried",
        f"{E}: test_the_retry_is_one",
        f"{M}: test_a_stale_retry_is_one_exchange",
    ],
    "the whole request is still at hand, and it is not stateful": [
        f"{E}: test_a_request_that_is_not_at_hand_is_not_retried",
        f"{E}: test_a_stale_connection_in_the_middle_of_an_upload",
        f"{E}: test_a_stateful_request_is_not_tried_again",
        f"{E}: test_responses_are_stateful_unless_they_say_not",
        "relay/stale: test_state_however_it_is_spelled",
        "relay/stale: test_state_in_chunks",
        "relay/stale: test_what_cannot_be_looked_into",
    ],
    "an engine that crashes 1 s after reading gets exactly one request": [
        f"{W}: test_an_engine_that_crashes_after_reading_gets_the_request_once",
        f"{E}: test_a_crashing_engine_gets_one_request",
    ],
    "retry_stale says so in the configuration": [f"{E}: test_retry_stale_says_so"],
    # Names
    "Names are never resolved on the request path or in the loop's shared thread pool": [
        f"{E}: test_names_are_never_resolved_on_the_request_path",
        f"{W}: test_every_arm_s_black_holed_dns_costs_the_primary_nothing",
        f"{M}: test_an_unresolved_arm",
    ],
    "each upstream refreshes its own addresses every 30 s, the last good ones serve meanwhile": [
        "relay/addresses: test_a_name_is_looked_up_every_30_s",
        "relay/addresses: test_rotation_and_refresh",
        "config_numbers: test_what_nobody_configures",
        "relay/addresses: test_an_unknown_name_is_tried_again_soon",
    ],
    # An arm's request is built, not relayed
    "the complete body, one Content-Length reckoned after changes; no Transfer-Encoding, Trailer, "
    "Expect, TE, Upgrade, digests": [
        f"{M}: test_an_arm_s_request_is_built",
        "relay/headers: test_built",
        "relay/headers: test_what_never_travels",
    ],
    "Changing a value replaces it in place: key order, number spelling, escapes and duplicates "
    "stay": [
        "relay/body_change: test_a_dictionary_s_say",
        "relay/body_change: test_a_model_is_replaced_where_it_stands",
        "relay/body_change: test_nothing_asked_nothing_changed",
    ],
    "A content-coded body is undone within a bound if it must be changed, else skipped encoded": [
        "relay/body_mirror: test_a_coded_request",
        "relay/body_mirror: test_what_cannot_be_read_fails_closed",
        "relay/body_names: test_a_bomb_is_bounded",
    ],
    "What the configuration asks of a body is read after its last byte went to the primary, in steps "
    "that hold the loop under 1 ms; what cannot be is skipped too_large_to_route": [
        f"{M}: test_the_arm_starts_when_the_primary_has_the_last_byte",
        "relay/body_scan: test_each_step_is_short",
        "relay/body_scan: test_what_takes_too_long_is_given_up",
        "relay/body_mirror: test_a_huge_body_is_changed_in_steps",
    ],
    # Drain
    "stop accepting, Connection: close on heads not yet sent, no new mirrors": [
        f"{E}: test_drain_lets_streams_end",
        f"{W}: test_a_drain_among_long_streams",
        f"{W}: test_a_drain_answers_who_was_just_writing",
        "gateways/failover: test_a_restart_costs_nothing",
    ],
    "wait for the clients' streams up to drain, cut and count the rest (cut_by_drain)": [
        f"{E}: test_drain_cuts_what_does_not_end",
        f"{M}: test_a_cut_stream_says_cut_by_drain",
        "relay/app: test_a_signal_drains",
    ],
    "mirrors still open then are dropped shutdown, never failures": [
        f"{M}: test_drain_drops_open_mirrors_as_shutdown"
    ],
    "then publisher, then collector, 15 s each; exit 0": [
        "supervise: test_a_killed_service_comes_back_and_the_drain_has_an_order",
        "end_to_end/up: test_a_drain_loses_nothing_captured",
    ],
    "A second signal ends at once": [
        "relay/app: test_a_second_signal_ends_at_once",
        "supervise: test_a_second_signal_ends_at_once_and_says_that_it_cut",
    ],
    "With no stream running it is a matter of seconds": [
        f"{E}: test_drain_without_streams_is_quick",
        "relay/app: test_without_a_stream_it_is_a_moment",
    ],
    # Fidelity, beyond the above
    "any method": [
        f"{F}: test_unregistered_methods_pass",
        f"{W}: test_empty_bodies_and_bodies_of_any_method",
    ],
    "empty and chunked bodies": [
        f"{W}: test_empty_bodies_and_bodies_of_any_method",
        f"{M}: test_empty_bodies_are_mirrored",
    ],
    "chunked uploads streamed while they arrive": [
        f"{W}: test_an_upload_of_single_bytes_streams_while_it_arrives"
    ],
    "gzip/br/zstd untouched": [f"{W}: test_coded_bodies_pass_untouched_both_ways"],
    "HEAD/204/304": [
        f"{F}: test_answers_without_a_body",
        "relay/answer: test_no_body",
    ],
    "Expect: 100-continue, 103": [f"{F}: test_100_continue_and_103_pass"],
    "an answer that comes before the upload has ended": [
        f"{E}: test_an_early_answer_keeps_both_if_the_upload_ends_soon",
    ],
    "HTTP/1.0 clients": [f"{F}: test_a_1_0_client_gets_the_body_dechunked_and_a_close"],
    "pipelining": [
        f"{F}: test_pipelined_requests_are_answered_in_order",
        f"{E}: test_what_is_sent_ahead_is_bounded",
    ],
    "SSE passed read by read": [
        f"{W}: test_events_pass_read_by_read",
        f"{F}: test_chunks_arrive_when_they_are_sent",
    ],
    "200 MB bodies at flat memory": [
        f"{W}: test_200_mb_both_ways_at_flat_memory",
        "faults/large: test_an_answer_of_200_mb_is_captured",
        "faults/large: test_a_chunked_upload_of_200_mb",
    ],
    "WebSocket upgrades are passed through and counted, not mirrored": [
        f"{W}: test_a_websocket_is_counted_and_not_mirrored"
    ],
    "The primary's truncations and resets reach the client as such": [
        f"{E}: test_a_reset_reaches_the_client_as_a_reset",
        f"{E}: test_a_cut_answer_ends_as_it_was_cut",
    ],
    "the client's disconnect, before the first byte too, reaches the primary at once and is "
    "recorded as such": [
        f"{W}: test_a_client_that_leaves_before_the_first_byte",
        f"{M}: test_a_client_s_disconnect_censors_both_sides",
    ],
    "slow clients exert back-pressure and are measured (client_wait)": [
        f"{E}: test_a_slow_client_holds_the_upstream_back",
        f"{E}: test_a_slow_upstream_holds_the_client_back",
        f"{M}: test_a_slow_client_s_wait_is_measured",
    ],
    "Over request_bytes the primary streams on and the mirror is declined, body_too_large": [
        f"{M}: test_a_chunked_body_that_grows_too_large_is_skipped",
        f"{W}: test_200_mb_both_ways_at_flat_memory",
    ],
    "over answer_bytes marks and tail go on": [
        f"{W}: test_beyond_answer_bytes_marks_and_the_tail_go_on",
        "relay/capture: test_the_head_and_the_tail_are_kept",
    ],
    "https upstreams (verification on, own CA, client certificate, SNI)": [
        "relay/tls: test_verified_by_its_authority_and_name",
        "relay/tls: test_what_does_not_verify_is_a_502",
        "relay/tls: test_a_client_s_certificate_is_shown",
        "relay/tls: test_the_name_is_said_in_the_handshake",
    ],
    "every arm's DNS black-holed while the primary opens new connections costing it nothing": [
        f"{W}: test_every_arm_s_black_holed_dns_costs_the_primary_nothing"
    ],
    "Host, Forwarded/X-Forwarded-*, traceparent, X-Request-Id: as configured": [
        "relay/forwarding: test_by_default_nothing_is_added_or_changed",
        "relay/forwarding: test_append_adds_this_hop",
        "relay/forwarding: test_the_primary_s_own_host",
        "relay/forwarding: test_an_id_that_is_there",
        "relay/forwarding: test_a_trace_that_is_there",
        "relay/forwarding: test_what_is_absent_is_made",
        "relay/forwarding: test_the_records_know_the_request_by_it",
        f"{M}: test_an_arm_s_request_is_built",
    ],
    "hop-by-hop by RFC 9110": [f"{F}: test_hop_by_hop_fields_stay_on_their_hop"],
    "upstream idle time-out 4 s by default": [
        "config_numbers: test_what_holds_without_being_configured",
        f"{E}: test_idle_connections_end_after_their_time",
        f"{W}: test_an_engine_that_closes_idle_connections_costs_nobody_an_answer",
    ],
    "zero 502s that the client would not have had": [
        f"{W}: test_an_engine_that_closes_idle_connections_costs_nobody_an_answer"
    ],
    "Drain with streams of minutes running": [
        "end_to_end/long_drain: test_a_drain_outlasts_streams_of_a_minute_and_a_half",
        f"{W}: test_a_drain_among_long_streams",
    ],
    "kill -9 of the proxy behind a real Envoy: at most the streams in flight are lost": [
        "gateways/failover: test_kill_9_costs_at_most_the_streams_in_flight"
    ],
    "The tap answers at once with 202 and sends the request to a baseline replica (arm name primary, "
    "attach=tap) and to the candidates": [
        "relay/tap: test_a_copy_goes_to_the_replica_and_to_the_arms",
        "relay/tap: test_the_gateway_waits_for_nobody",
        "gateways/tap: test_envoy_mirrors_to_the_tap",
        "gateways/tap: test_nginx_mirrors_to_the_tap",
    ],
    "bounded everything: heads, idle clients, uploads": [
        "relay/waits: test_a_head_that_does_not_end_is_408",
        "relay/waits: test_an_idle_connection_ends",
        "relay/waits: test_a_stalled_upload_is_the_mirror_s_to_leave",
        "relay/waits: test_a_crumbled_upload_holds_nobody_and_passes_whole",
    ],
}

FAULTS: dict[str, list[str]] = {
    "nginx: the primary falls to the mirror's rate (mailing list 2017-10, 2017-11)": [
        "faults/faults: test_an_arm_s_fault_is_not_the_clients",
        f"{M}: test_an_arm_s_fault_is_the_arm_s_alone",
    ],
    "ingress-nginx#10116: primary traffic halves": [
        "faults/rate: test_the_primary_s_rate_beside_an_arm_at_half_capacity"
    ],
    "haproxy#2457, spoa-mirror#26: a dead agent is waited for": [
        f"{M}: test_a_black_hole",
        f"{M}: test_an_unresolved_arm",
        "faults/stream_away: test_the_stream_away",
    ],
    "apisix#4312: the primary gets the mirror's path": [f"{M}: test_an_arm_s_request_is_built"],
    "traefik#5953: header maps written at once, a crash": [
        "relay/headers: test_heads_are_built_apart_under_load"
    ],
    "traefik#6125: memory grows with a mirror that never answers": [
        "relay/chaos: test_a_hung_arm_grows_nothing",
        "relay/memory: test_a_hung_arm_holds_no_more_than_its_share",
    ],
    "traefik#8045, #12079: a request without a body is a 500": [
        f"{W}: test_empty_bodies_and_bodies_of_any_method"
    ],
    "traefik#5255: panic on WebSocket": [f"{W}: test_a_websocket_is_counted_and_not_mirrored"],
    "envoy#18364: bodies over 1 MB are silently not mirrored": [
        f"{M}: test_skipped_requests_are_counted_with_their_reason",
        f"{M}: test_a_chunked_body_that_grows_too_large_is_skipped",
    ],
    "ingress-nginx#9680: a second, hidden body limit": [f"{F}: test_no_hidden_body_limit"],
    "istio#23814: a mirrored Host ends in -shadow": [f"{M}: test_an_arm_s_request_is_built"],
    "envoy#44406: the mirror gets what the primary rejected": [
        f"{M}: test_a_primary_that_cannot_be_reached"
    ],
    "envoy#24365: streamed shadows break the primary with retries": [
        f"{W}: test_an_upload_of_single_bytes_streams_while_it_arrives",
        f"{E}: test_a_stale_connection_in_the_middle_of_an_upload",
    ],
    "contour#1889: the weight is ignored": ["relay/selection: test_a_rate_of_one_percent_is_one"],
    "envoy#12891: candidates see different requests": [
        "relay/sampling: test_rates_nest",
        "relay/sampling: test_the_same_everywhere",
    ],
    "envoy#22599, #14548: failed mirrors are invisible": [
        f"{M}: test_an_arm_s_fault_is_the_arm_s_alone"
    ],
    "goreplay#1247: lost, and the drop counter says 0": [
        "relay/chaos: test_the_books_balance_whatever_happens"
    ],
    "goreplay#673, #136: split chunked bodies lost": [
        f"{W}: test_an_upload_of_single_bytes_streams_while_it_arrives"
    ],
    "goreplay#1020: responses interleaved": [f"{M}: test_pairs_are_never_mixed"],
    "diffy#14: POST swallowed": [f"{M}: test_only_posts_to_the_listed_paths_are_eligible"],
    "seldon#2383: the second shadow gets nothing": [
        "relay/selection: test_three_candidates_each_get_the_full_sample"
    ],
    "krakend-ce#671: leaks on a non-2xx shadow": [
        "faults/faults: test_an_arm_s_fault_is_not_the_clients",
        "faults/leaks: test_nothing_is_left_of_a_request",
    ],
    "teeproxy#29: too many open files after 100,000 requests": [
        "faults/faults: test_an_arm_s_fault_is_not_the_clients"
    ],
    "confluent-kafka-python#16, #341, #781, faststream#2836: the broker is down, and the loop is "
    "blocked, or messages are lost uncounted": ["faults/stream_away: test_the_stream_away"],
    "apisix PR #11133: large bodies in the log exhaust the proxy": [
        "faults/faults: test_an_arm_s_fault_is_not_the_clients",
        "faults/large: test_an_answer_of_200_mb_is_captured",
    ],
    "litellm#31888: an API is never mirrored": [
        "relay/selection: test_each_api_is_mirrored_by_default",
        "relay/selection: test_no_other_api_is_mirrored_by_default",
    ],
    "litellm#34890: the mirror's options reach the primary": [
        "relay/body_mirror: test_an_arm_s_wishes_are_its_own",
        "relay/headers: test_heads_are_built_apart_under_load",
    ],
    "ai-gateway#2137: the copy spends the caller's quota, and names the wrong model": [
        "relay/body_mirror: test_an_arm_s_wishes_are_its_own",
        "relay/body_mirror: test_other_models_are_skipped_for_that_arm",
        "relay/body_staying: test_fields_of_a_head_stay",
        "relay/body_staying: test_credentials_stay",
    ],
    "sampling of single turns gives a candidate a colder cache": [
        "relay/body_mirror: test_a_conversation_is_chosen_whole",
        "relay/body_mirror: test_a_large_conversation_too",
        "relay/sampling: test_a_proxy_draws_so",
    ],
    "aiohttp#8477, #4768: content-encoding mismatch": [
        f"{W}: test_coded_bodies_pass_untouched_both_ways"
    ],
    "aiohttp#2492, #2098: the engine works on after the client has left": [
        f"{W}: test_a_client_that_leaves_before_the_first_byte"
    ],
}


@cache
def _tests_of(module: str) -> frozenset[str]:
    area, _, name = module.rpartition("/")
    stem = f"test_{area}_{name}" if area in {"relay", "gateways"} else f"test_{name}"
    tree = ast.parse((TESTS / area / f"{stem}.py").read_text())
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return frozenset(function.name for function in functions)


@pytest.mark.parametrize("sentence", [*PROMISES, *FAULTS])
def test_each_sentence_has_its_tests(sentence):
    """All that are named exist."""
    named = (PROMISES | FAULTS)[sentence]
    assert named
    for test in named:
        module, _, name = test.partition(": ")
        assert name in _tests_of(module), test
