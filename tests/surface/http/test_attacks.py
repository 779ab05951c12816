"""Every known attack on the server, and the test that shows what becomes of it.

A1   surface/http/test_authentication.py::test_no_wrong_revoked_or_expired_key_gets_the_same_answer
A2   surface/http/test_authentication.py::test_the_sender_follows_from_the_key
A3   surface/http/test_attacks_input.py::test_a_response_by_post_comes_from_who_was_asked
A4   surface/http/test_attacks_input.py::test_a_response_answers_nothing_but_a_request_of_its_channel
A5   surface/http/test_authentication.py::test_a_key_in_the_query_is_no_key
A6   surface/http/test_authentication.py::test_who_guesses_keys_is_slowed_down_and_finds_nothing
A7   surface/http/test_authentication.py::test_a_key_is_looked_up_by_the_hash_of_all_of_it
A8   surface/http/test_attacks_identity.py::test_a_token_of_any_kind_is_no_key
A12  surface/http/test_governance_attacks.py::test_an_envelope_does_not_make_one_somebody_else
A13  surface/http/test_governance_attacks.py::test_no_key_but_a_persons_writes_as_a_person
A14  surface/http/test_governance_attacks.py::test_without_a_good_envelope_nobody_is_taken_for_a_person
A18  surface/http/test_messages.py::test_a_message_never_changes
A19  surface/http/test_messages.py::test_what_is_no_message_is_refused_with_its_field
A20  surface/http/test_messages.py::test_json_that_means_two_things_or_nothing_is_refused
A21  surface/http/test_messages.py::test_json_that_means_two_things_or_nothing_is_refused
A22  surface/http/test_streams.py::test_text_cannot_forge_an_event
A22  surface/http/test_attacks_input.py::test_nobody_says_in_a_log_what_a_stream_says_itself
A23  surface/http/test_attacks_input.py::test_a_name_that_could_forge_a_line_is_no_name
A24  surface/http/test_attacks_input.py::test_what_is_written_into_a_query_stays_text
A28  surface/http/test_governance_attacks.py::test_who_says_round_one_for_ever_gets_no_further
A29  surface/http/test_governance_attacks.py::test_who_asks_for_a_million_rounds_gets_what_the_policy_gives
A30  surface/http/test_governance_attacks.py::test_a_new_name_for_each_message_does_not_go_on_for_ever
A31  surface/http/test_governance_attacks.py::test_of_those_who_send_round_three_at_once_one_is_accepted
A31  surface/http/test_governance_attacks.py::test_two_servers_on_one_store_do_not_deliver_more_than_one
A32  surface/http/test_governance_attacks.py::test_nobody_makes_itself_more_trusted_or_its_secrets_less_secret
A32  surface/http/test_governance_attacks.py::test_nothing_that_was_not_delivered_is_read_by_other_ways
A32  surface/http/test_attacks_variants.py::test_no_field_carries_words_past_the_rules_and_none_does_when_sent_again
A33  surface/http/test_governance_attacks.py::test_a_commitment_is_held_in_every_disguise
A33  surface/http/test_governance_attacks.py::test_what_stands_beside_the_body_is_looked_at_like_the_body
A33  surface/http/test_governance_attacks.py::test_what_stands_beside_the_body_of_an_ordinary_message_is_looked_at_too
A33  surface/http/test_attacks_variants.py::test_no_field_carries_words_past_the_rules_and_none_does_when_sent_again
A34  surface/http/test_governance_attacks.py::test_words_that_only_look_like_a_commitment_pass
A35  surface/http/test_decision_attacks.py::test_an_approval_is_for_what_was_shown_and_for_once
A36  surface/http/test_decision_attacks.py::test_only_a_person_decides_and_with_four_eyes_another_one
A36  surface/http/test_decision_attacks.py::test_an_agents_key_cannot_become_a_persons
A37  surface/http/test_decision_attacks.py::test_who_changes_the_log_in_its_store_is_found_out_entry_by_entry
A37  unit/wire/proofs/test_audit_log.py::test_whatever_is_done_to_it_is_found_at_the_first_bad_entry
A37  unit/wire/proofs/test_audit_log.py::test_a_log_that_was_rewritten_with_all_its_hashes_is_not_what_was_signed
A37  unit/wire/proofs/test_audit_log.py::test_a_shorter_log_with_its_own_checkpoints_is_found_by_what_lies_outside
A37  unit/wire/proofs/test_audit_log.py::test_two_heads_of_one_log_are_found
A38  surface/http/test_subscriptions.py::test_the_receivers_check_refuses_what_was_altered_or_is_old_or_came_before
A40  surface/http/test_attacks_identity.py::test_neither_sender_nor_reader_can_deny_what_was_audited
A41  surface/http/test_attacks_input.py::test_the_output_of_a_server_holds_no_body_no_key_and_no_line_of_others
A42  surface/http/test_decision_attacks.py::test_every_entry_has_somebody_who_did_it
A43  surface/http/test_attacks_visibility.py::test_what_is_anothers_is_on_no_route_told_from_what_does_not_exist
A44  surface/http/test_attacks_visibility.py::test_what_a_tenant_is_told_does_not_depend_on_another
A45  surface/http/test_messages.py::test_a_directed_message_is_for_its_two_alone
A45  surface/http/test_streams.py::test_a_directed_message_is_on_no_other_stream
A46  surface/http/test_streams.py::test_a_removed_member_is_told_at_once_and_then_finds_nothing
A46  surface/http/test_streams.py::test_a_revoked_key_ends_its_streams_at_once
A46  surface/http/test_attacks_visibility.py::test_a_stream_ends_with_the_right_to_follow_it
A47  surface/http/test_api.py::test_a_key_belongs_to_its_tenant_its_agent_and_its_route
A48  surface/http/test_api.py::test_what_goes_wrong_inside_is_shown_without_detail
A48  surface/http/test_attacks_identity.py::test_a_counter_of_all_tenants_is_not_for_each_of_them
A53  surface/http/test_subscriptions.py::test_a_forbidden_target_is_refused_when_it_is_asked_for
A53  surface/http/test_subscriptions.py::test_a_name_that_turns_inward_is_blocked_when_something_is_pushed
A53  surface/http/test_attacks_variants.py::test_no_spelling_of_an_inner_address_is_a_target
A54  surface/http/test_subscriptions.py::test_what_a_hostile_receiver_answers_is_a_failed_attempt
A57  surface/http/test_decision_attacks.py::test_nothing_is_hidden_from_who_approves
A58  surface/http/test_attacks_identity.py::test_the_server_does_not_answer_to_the_name_of_another
A58  surface/http/test_attacks_identity.py::test_a_page_of_another_site_writes_nothing
A58  surface/http/test_attacks_variants.py::test_a_host_that_only_looks_like_this_machine_is_not_served
A60  unit/surfaces/http/http1/test_connection_limits.py::test_a_body_of_100_megabytes_is_refused_while_it_comes
A60  unit/surfaces/http/http1/test_connection_limits.py::test_chunks_without_end_are_refused_at_the_limit
A60  unit/surfaces/http/http1/test_connection_limits.py::test_a_request_that_drips_in_is_given_up
A60  unit/surfaces/http/http1/test_connection_limits.py::test_ten_thousand_fields_are_refused
A60  surface/http/test_attacks_input.py::test_a_query_has_at_most_a_hundred_fields
A60  surface/http/test_attacks_variants.py::test_bytes_that_could_be_two_requests_are_none
A61  surface/http/test_messages.py::test_json_that_means_two_things_or_nothing_is_refused
A68  surface/http/test_streams.py::test_a_key_has_so_many_streams_and_no_more
A68  surface/http/test_streams.py::test_a_reader_that_does_not_read_is_cut_off_and_resumes_where_it_was
A69  surface/http/test_attacks_load.py::test_of_everything_there_are_so_many_and_not_one_more
A70  surface/http/test_attacks_input.py::test_what_is_looked_for_is_a_text_and_no_pattern
A71  surface/http/test_attacks_load.py::test_who_searches_without_end_keeps_no_other_reader_waiting
A71  surface/http/test_attacks_load.py::test_a_key_that_calls_too_often_slows_down_itself_alone
A72  surface/http/test_governance_attacks.py::test_a_circle_of_agents_is_broken_and_shown_to_a_person_once
A72  surface/http/test_governance_attacks.py::test_nobody_answers_what_was_only_a_notice_or_an_answer
A73  surface/http/test_decision_attacks.py::test_who_floods_the_people_fills_only_its_own_queue_and_silence_is_a_no
A74  surface/http/test_subscriptions.py::test_a_receiver_that_is_gone_disables_its_subscription_until_it_is_switched_on
A74  conformance/channels/test_trust.py::test_a_webhook_is_tried_again_later_and_later_until_it_is_accepted
A75  surface/http/test_authentication.py::test_an_agents_key_is_refused_on_every_admin_route
A75  surface/http/test_attacks_identity.py::test_an_admin_of_the_same_tenant_does_not_become_the_operator
A76  surface/http/test_attacks_input.py::test_a_field_that_is_not_offered_is_not_set
A77  surface/http/test_roles.py::test_registering_with_somebodys_role_brings_none_of_its_mail
A78  surface/http/test_channels.py::test_members_are_managed_by_those_who_may
A79  surface/http/test_channels.py::test_a_closed_channel_takes_no_message_and_can_be_read
A79  surface/http/test_intents.py::test_a_resolved_intent_closes_its_channels
A79  surface/http/test_messages.py::test_outside_its_channel_a_message_does_not_exist
A84  surface/http/test_decision_attacks.py::test_no_way_leads_into_another_tenant
A84  surface/http/test_tenant_walls.py::test_no_byte_of_another_tenant_comes_out_whatever_is_asked
A84  surface/http/test_tenant_walls.py::test_what_is_another_tenants_is_told_from_nothing_by_no_answer
A85  surface/http/test_decision_attacks.py::test_what_cannot_be_judged_is_not_delivered
A86  surface/http/test_attacks_identity.py::test_what_others_could_read_is_not_served
A86  surface/http/test_attacks_identity.py::test_root_serves_nobody_but_this_machine
A87  surface/http/test_authentication.py::test_every_guarded_route_needs_a_key

A8: there are no tokens to be checked here, so every one of them is no key at all.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.rigs.source_trees import parsed

TESTS = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
# On the server: who one is, what one sends, what one denies, sees, wears out or takes; webhooks; the machine; and the
# rules of an exchange, those who decide about one, and the record of it.
ATTACKS = {
    *range(1, 9),
    *(12, 13, 14),
    *range(18, 25),
    *range(28, 39),
    *range(40, 49),
    *(53, 54, 57, 58, 60, 61),
    *range(68, 80),
    *range(84, 88),
}


def listed() -> list[tuple[int, str, str]]:
    """Number, file and test of each line above."""
    found = re.findall(r"^A(\d+) +(\S+)::(\w+)$", __doc__ or "", re.MULTILINE)
    return [(int(number), file, test) for number, file, test in found]


def attacking() -> list[Path]:
    """The files of which every test is an attack."""
    return [*HERE.glob("test_attacks_*.py"), HERE / "test_governance_attacks.py", HERE / "test_tenant_walls.py"]


def names_in(file: str) -> set[str]:
    tree = parsed((TESTS / file).read_text())
    return {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_attack_has_a_test_and_every_test_an_attack() -> None:
    assert {number for number, _, _ in listed()} == ATTACKS


def test_every_test_that_is_listed_exists() -> None:
    missing = [f"{file}::{test}" for _, file, test in listed() if test not in names_in(file)]

    assert missing == []


def test_every_attack_that_a_test_claims_to_be_is_listed() -> None:
    claimed = {
        int(number)
        for file in attacking()
        for line in re.findall(r'^ *# (A\d+.*)$|"A(\d+)-', file.read_text(), re.MULTILINE)
        for number in re.findall(r"\d+", re.split("[:;]", " ".join(line))[0])
    }

    assert claimed
    assert claimed <= ATTACKS


def test_every_test_of_an_attack_says_which_one_it_is() -> None:
    silent = []
    for file in attacking():
        text = file.read_text()
        for one in ast.walk(parsed(text)):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                first = min([line.lineno for line in one.decorator_list] or [one.lineno])
                source = "\n".join(text.splitlines()[first - 1 : one.end_lineno])
                if not re.search(r"# A\d+|TOKENS|QUOTAS", source):
                    silent.append(one.name)

    assert silent == []
